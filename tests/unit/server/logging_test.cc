#include "server/logging.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "absl/strings/match.h"
#include <spdlog/spdlog.h>

#include "server/unique_fd.h"
#include "tests/support/catch.h"

namespace kvpool::server {
namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
  }
  std::string ReadSome() const {
    std::string text(65536, '\0');
    const ssize_t size = read(read_end.get(), text.data(), text.size());
    text.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return text;
  }
  UniqueFd read_end;
  UniqueFd write_end;
};

TEST_CASE("Log text that could end a value or a line is quoted and escaped") {
  CHECK(LogText("chat-7_a.b:c/d@e+f") == "chat-7_a.b:c/d@e+f");
  CHECK(LogText("") == "\"\"");
  CHECK(LogText("a b") == "\"a b\"");
  CHECK(LogText("a\nlevel=info event=forged") == "\"a\\nlevel=info event=forged\"");
  CHECK(LogText("\"") == "\"\\\"\"");
  CHECK(LogText("a=b") == "\"a=b\"");
  CHECK(LogText("\x1b[31m\x07") == "\"\\x1b[31m\\x07\"");
  CHECK(LogText(absl::string_view("a\0z", 3)) == "\"a\\x00z\"");
}

TEST_CASE("Log text is cut where it is long") {
  CHECK(LogText(std::string(256, 'a')) == std::string(256, 'a'));
  CHECK(LogText(std::string(257, 'a')) == "\"" + std::string(256, 'a') + "...\"");
}

TEST_CASE("A log level goes by its name") {
  CHECK(*ParseLogLevel("debug") == spdlog::level::debug);
  CHECK(*ParseLogLevel("warning") == spdlog::level::warn);
  CHECK(*ParseLogLevel("off") == spdlog::level::off);
  for (const char* name : {"", "DEBUG", "verbose", "info "}) {
    CAPTURE(name);
    CHECK(absl::IsInvalidArgument(ParseLogLevel(name).status()));
  }
}

TEST_CASE("A log line has its time, its level and its event") {
  const Pipe pipe;
  StartLogging(pipe.write_end.get(), spdlog::level::info);
  spdlog::info("event=test session={}", "1a2b3c4d");
  spdlog::debug("event=hidden");
  StopLogging();
  const std::string text = pipe.ReadSome();
  CHECK(absl::EndsWith(text, "Z level=info event=test session=1a2b3c4d\n"));
  CHECK_FALSE(absl::StrContains(text, "hidden"));
}

TEST_CASE("A reader that takes nothing holds up neither those who log nor the end") {
  const Pipe pipe;
  StartLogging(pipe.write_end.get(), spdlog::level::info);
  // Far more than a pipe (64 KiB) and the queue hold.
  for (int i = 0; i < 20'000; ++i)
    spdlog::info("event=flood number={} {}", i, std::string(100, 'x'));
  StopLogging();
  CHECK(absl::StrContains(pipe.ReadSome(), "event=flood"));
}

TEST_CASE("A line that is longer than a pipe takes whole is cut and still ends") {
  const Pipe pipe;
  StartLogging(pipe.write_end.get(), spdlog::level::info);
  spdlog::info("event=long {}", std::string(20'000, 'x'));
  StopLogging();
  const std::string text = pipe.ReadSome();
  CHECK(text.size() == 4096);
  CHECK(text.back() == '\n');
}

}  // namespace
}  // namespace kvpool::server
