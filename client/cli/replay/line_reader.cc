#include "client/cli/replay/line_reader.h"

#include <lzma.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/status_macros.h"

namespace kvpool::replay {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 16;
constexpr std::array<unsigned char, 6> kXzMagic = {0xFD, '7', 'z', 'X', 'Z', 0};
// What the decoder may take: `xz -9` needs 65 MiB.
constexpr uint64_t kMaxXzMemoryBytes = uint64_t{256} << 20;

}  // namespace

// A file's compressed bytes, and the decoder's state.
class LineReader::XzDecoder {
 public:
  XzDecoder() {
    // Fails for want of memory alone.
    KVPOOL_CHECK(lzma_stream_decoder(&stream_, kMaxXzMemoryBytes, LZMA_CONCATENATED) == LZMA_OK);
  }
  ~XzDecoder() { lzma_end(&stream_); }

  XzDecoder(const XzDecoder&) = delete;
  XzDecoder& operator=(const XzDecoder&) = delete;

  // Decodes some of what `file` has, reading it as needed, to the end of `text`. Sets `is_at_end`
  // where nothing follows. Returns what is wrong, or nothing.
  absl::string_view Decode(std::FILE* file, std::vector<char>& text, bool& is_at_end) {
    const size_t old_size = text.size();
    text.resize(old_size + kChunkBytes);
    stream_.next_out = reinterpret_cast<uint8_t*>(text.data() + old_size);
    stream_.avail_out = kChunkBytes;
    lzma_ret result = LZMA_OK;
    while (result == LZMA_OK && stream_.avail_out == kChunkBytes) {
      if (stream_.avail_in == 0 && std::feof(file) == 0) {
        stream_.next_in = input_.data();
        stream_.avail_in = std::fread(input_.data(), 1, input_.size(), file);
        if (std::ferror(file) != 0) return "the file cannot be read";
      }
      result = lzma_code(&stream_, std::feof(file) != 0 ? LZMA_FINISH : LZMA_RUN);
    }
    text.resize(old_size + kChunkBytes - stream_.avail_out);
    is_at_end = result == LZMA_STREAM_END;
    if (result == LZMA_OK || is_at_end) return "";
    if (result == LZMA_BUF_ERROR) return "the xz data ends early";
    if (result == LZMA_MEMLIMIT_ERROR) return "the xz data takes over 256 MiB to decode";
    return "the xz data is corrupt";
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  std::array<uint8_t, kChunkBytes> input_{};
};

void LineReader::XzDeleter::operator()(XzDecoder* decoder) const { delete decoder; }

absl::StatusOr<LineReader> LineReader::Open(const std::string& path) {
  std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  std::array<unsigned char, kXzMagic.size()> start{};
  const bool is_xz =
      std::fread(start.data(), 1, start.size(), file.get()) == start.size() && start == kXzMagic;
  if (std::fseek(file.get(), 0, SEEK_SET) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot read ", path, " from its start: ", std::strerror(errno)));
  }
  LineReader reader(path, std::move(file));
  if (is_xz) reader.xz_.reset(new XzDecoder());
  return reader;
}

absl::StatusOr<bool> LineReader::Next(std::string& line) {
  ++line_number_;
  size_t searched = text_begin_;
  while (true) {
    const void* newline = searched == text_.size()
                              ? nullptr
                              : std::memchr(text_.data() + searched, '\n', text_.size() - searched);
    const size_t length =
        (newline == nullptr
             ? text_.size()
             : static_cast<size_t>(static_cast<const char*>(newline) - text_.data())) -
        text_begin_;
    if (length > kMaxLineBytes) {
      return Error(absl::StrCat("the line is longer than ", kMaxLineBytes, " bytes"));
    }
    if (newline != nullptr || (is_at_end_ && length > 0)) {
      line.assign(text_.data() + text_begin_, length);
      text_begin_ += length + (newline != nullptr ? 1 : 0);
      return true;
    }
    if (is_at_end_) return false;
    text_.erase(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(text_begin_));
    text_begin_ = 0;
    searched = text_.size();
    KVPOOL_RETURN_IF_ERROR(ReadMore());
  }
}

absl::Status LineReader::Error(absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ":", line_number_, ": ", message));
}

absl::Status LineReader::ReadMore() {
  if (xz_ == nullptr) return ReadPlain();
  const absl::string_view error = xz_->Decode(file_.get(), text_, is_at_end_);
  return error.empty() ? absl::OkStatus() : Error(error);
}

absl::Status LineReader::ReadPlain() {
  const size_t old_size = text_.size();
  text_.resize(old_size + kChunkBytes);
  const size_t count = std::fread(text_.data() + old_size, 1, kChunkBytes, file_.get());
  text_.resize(old_size + count);
  // A directory opens, and then cannot be read.
  if (std::ferror(file_.get()) != 0) return Error("the file cannot be read");
  is_at_end_ = count < kChunkBytes;
  return absl::OkStatus();
}

}  // namespace kvpool::replay
