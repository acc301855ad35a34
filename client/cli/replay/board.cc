#include "client/cli/replay/board.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvpool::replay {

using std::chrono::steady_clock;

absl::StatusOr<Board> Board::Create(size_t request_count, uint32_t worker_count) {
  const size_t size_bytes =
      sizeof(Header) + worker_count * sizeof(Failure) + request_count * sizeof(RequestResult);
  void* memory =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the results of ", request_count, " requests"));
  }
  return Board(memory, size_bytes, request_count, worker_count);
}

Board::Board(void* memory, size_t size_bytes, size_t request_count, uint32_t worker_count)
    : memory_(memory), size_bytes_(size_bytes) {
  auto* bytes = static_cast<std::byte*>(memory);
  header_ = new (bytes) Header{};
  header_->request_count = request_count;
  static_assert(sizeof(Header) % alignof(Failure) == 0);
  static_assert(sizeof(Failure) % alignof(RequestResult) == 0);
  failures_ = reinterpret_cast<Failure*>(bytes + sizeof(Header));
  std::uninitialized_value_construct_n(failures_, worker_count);
  results_ = reinterpret_cast<RequestResult*>(failures_ + worker_count);
  std::uninitialized_value_construct_n(results_, request_count);
}

Board::Board(Board&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      size_bytes_(other.size_bytes_),
      header_(other.header_),
      failures_(other.failures_),
      results_(other.results_) {}

Board::~Board() {
  if (memory_ != nullptr) munmap(memory_, size_bytes_);
}

std::optional<size_t> Board::TakeRequest() {
  if (has_failed()) return std::nullopt;
  const size_t request = header_->next_request++;
  if (request >= header_->request_count) return std::nullopt;
  return request;
}

void Board::SetBegin(steady_clock::time_point begin) {
  header_->begin_ns = std::chrono::nanoseconds(begin.time_since_epoch()).count();
}

steady_clock::time_point Board::begin() const {
  return steady_clock::time_point(std::chrono::nanoseconds(header_->begin_ns));
}

void Board::Fail(uint32_t worker, const absl::Status& status) {
  Failure& failure = failures_[worker];
  failure.code = static_cast<int>(status.code());
  failure.message_bytes = std::min(status.message().size(), kMaxMessageBytes);
  std::memcpy(failure.message, status.message().data(), failure.message_bytes);
  header_->has_failed = true;
}

absl::Status Board::StatusOf(uint32_t worker) const {
  const Failure& failure = failures_[worker];
  return {static_cast<absl::StatusCode>(failure.code),
          absl::string_view(failure.message, failure.message_bytes)};
}

}  // namespace kvpool::replay
