#include "client/cli/replay/line_reader.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/replay/trace_file.h"

namespace kvpool::replay {
namespace {

struct Lines {
  std::vector<std::string> lines;
  absl::Status status;  // How it ended.
};

Lines ReadAll(const std::string& path) {
  Lines read;
  auto reader = LineReader::Open(path);
  if (!reader.ok()) return {.lines = {}, .status = reader.status()};
  for (std::string line;;) {
    const auto has_line = reader->Next(line);
    read.status = has_line.status();
    if (!has_line.ok() || !*has_line) return read;
    read.lines.push_back(line);
  }
}

bool IsInvalid(const absl::Status& status, absl::string_view message) {
  return absl::IsInvalidArgument(status) && absl::StrContains(status.message(), message);
}

}  // namespace

TEST_CASE("LineReader reads lines, the last without its newline too, plain and from xz") {
  const test::TempDir dir;
  const std::string text = "one\n\ntwo\r\nthree";
  const std::vector<std::string> lines = {"one", "", "two\r", "three"};
  for (const std::string& content : {text, test::CompressXz(text)}) {
    const Lines read = ReadAll(test::WriteFile(dir.File("file"), content));
    CHECK(read.status.ok());
    CHECK(read.lines == lines);
  }
}

TEST_CASE("LineReader reads nothing from an empty file, plain or xz") {
  const test::TempDir dir;
  for (const std::string& content : {std::string(), test::CompressXz("")}) {
    const Lines read = ReadAll(test::WriteFile(dir.File("file"), content));
    CHECK(read.status.ok());
    CHECK(read.lines.empty());
  }
}

TEST_CASE("LineReader reads lines across the ends of its buffers, and of xz streams") {
  test::Random random(test::Seed());
  std::vector<std::string> lines;
  std::string text;
  std::string compressed;
  for (int part = 0; part < 3; ++part) {
    std::string part_text;
    for (int i = 0; i < 40; ++i) {
      lines.push_back(std::string(random.Below(20'000), static_cast<char>('a' + random.Below(26))));
      absl::StrAppend(&part_text, lines.back(), "\n");
    }
    text += part_text;
    compressed += test::CompressXz(part_text);
  }
  const test::TempDir dir;
  CHECK(ReadAll(test::WriteFile(dir.File("file"), text)).lines == lines);
  CHECK(ReadAll(test::WriteFile(dir.File("file.xz"), compressed)).lines == lines);
}

TEST_CASE("LineReader says that a file is not there, or is a directory") {
  const test::TempDir dir;
  const absl::Status missing = ReadAll(dir.File("missing")).status;
  CHECK(absl::IsNotFound(missing));
  CHECK(absl::StrContains(missing.message(), dir.File("missing")));
  CHECK(IsInvalid(ReadAll(dir.path().string()).status, "the file cannot be read"));
}

TEST_CASE("LineReader says at which line xz data ends early or is corrupt") {
  const test::TempDir dir;
  std::string compressed = test::CompressXz("one\ntwo\n");
  const std::string cut = compressed.substr(0, compressed.size() - 5);
  const Lines read = ReadAll(test::WriteFile(dir.File("file"), cut));
  CHECK(read.lines == std::vector<std::string>{"one", "two"});
  CHECK(IsInvalid(read.status, absl::StrCat(dir.File("file"), ":3: the xz data ends early")));

  compressed[compressed.size() / 2] ^= 1;
  CHECK(IsInvalid(ReadAll(test::WriteFile(dir.File("file"), compressed)).status,
                  "the xz data is corrupt"));
}

TEST_CASE("LineReader refuses a line that is too long") {
  const test::TempDir dir;
  std::string text(LineReader::kMaxLineBytes, 'a');
  CHECK(ReadAll(test::WriteFile(dir.File("file"), text)).lines.size() == 1);
  text = absl::StrCat("short\n", text, "b");
  for (const std::string& content : {text, test::CompressXz(text)}) {
    CHECK(IsInvalid(ReadAll(test::WriteFile(dir.File("file"), content)).status,
                    ":2: the line is longer than"));
  }
}

}  // namespace kvpool::replay
