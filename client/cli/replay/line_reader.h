#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kvpool::replay {

// LineReader reads a text file line by line: plain, or compressed by xz, which it tells from the
// file's first bytes. It holds a line and a buffer of the file, never all of it.
class LineReader {
 public:
  // The longest line: a request of 10^6 tokens in blocks of 16 takes a tenth of this.
  static constexpr size_t kMaxLineBytes = size_t{16} << 20;

  // NOT_FOUND where the file cannot be opened.
  static absl::StatusOr<LineReader> Open(const std::string& path);

  LineReader(LineReader&&) = default;
  LineReader& operator=(LineReader&&) = default;

  // Reads the next line, without its newline, into `line`; returns false at the end of the file.
  // INVALID_ARGUMENT, naming the file and the line, where a line is too long, the file cannot be
  // read on, or it is no whole xz file: none of what follows can be had then.
  absl::StatusOr<bool> Next(std::string& line);

  // Of the line read last: the first is 1.
  uint64_t line_number() const { return line_number_; }
  // "FILE:LINE: message", for the line read last.
  absl::Status Error(absl::string_view message) const;

 private:
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  class XzDecoder;
  struct XzDeleter {
    void operator()(XzDecoder* decoder) const;
  };

  LineReader(std::string path, std::unique_ptr<std::FILE, FileCloser> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  // Puts more text into `text_`, or sets `is_at_end_`.
  absl::Status ReadMore();
  absl::Status ReadPlain();

  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
  std::unique_ptr<XzDecoder, XzDeleter> xz_;  // Null for plain text.
  std::vector<char> text_;                    // From `text_begin_` on it is not handed out yet.
  size_t text_begin_ = 0;
  bool is_at_end_ = false;
  uint64_t line_number_ = 0;
};

}  // namespace kvpool::replay
