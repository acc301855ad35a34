#include "server/rpc/call_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "core/error.h"

namespace kvpool::server {
namespace {

// A request of fewer bytes is parsed into less than kUncountedCallBytes.
constexpr size_t kShortRequestBytes = 256;

// An id and a generation, in memory and as varints.
constexpr size_t kBytesPerBlock = 32;
// A PublishResponse::Duplicate: an object, its pointer, and its bytes.
constexpr size_t kBytesPerDuplicate = 80;
// A layout of 1,024 layers, or all there is to say of a block.
constexpr size_t kLongEntryBytes = 512 << 10;

// No call names more; one that does gets a short answer.
constexpr uint64_t kMaxBlocks = 65'536;

size_t BytesOf(uint64_t blocks) {
  return static_cast<size_t>(std::min(blocks, kMaxBlocks)) * kBytesPerBlock;
}

}  // namespace

absl::StatusOr<CallMemory> CallMemory::Take(MemoryBudget* all,
                                            std::shared_ptr<const Process> process, size_t bytes) {
  const auto refuse = [&](absl::string_view whose, const MemoryBudget& budget) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit},
        absl::StrCat("this call may take ", bytes, " bytes of memory, and calls in progress ",
                     whose, " hold ", budget.taken_bytes(), " of at most ", budget.max_bytes()));
  };
  if (!process->call_memory().Take(bytes)) {
    return refuse("of this process", process->call_memory());
  }
  if (all != nullptr && !all->Take(bytes)) {
    process->call_memory().Give(bytes);
    return refuse("of all processes", *all);
  }
  return CallMemory(all, std::move(process), bytes);
}

CallMemory::~CallMemory() {
  if (process_ == nullptr) return;
  StepOrder::BeginAt(process_.get());
  if (all_ != nullptr) all_->Give(bytes_);
  process_->call_memory().Give(bytes_);
}

CallMemory& CallMemory::operator=(CallMemory&& other) noexcept {
  std::swap(all_, other.all_);
  std::swap(process_, other.process_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

size_t RequestBytes(const google::protobuf::Message& request) {
  return request.ByteSizeLong() < kShortRequestBytes ? 0 : 2 * request.SpaceUsedLong();
}

void DropRequest(const google::protobuf::Message& request) {
  const std::unique_ptr<google::protobuf::Message> empty(request.New());
  // gRPC made the request for this call alone, and lends it as const.
  request.GetReflection()->Swap(const_cast<google::protobuf::Message*>(
                                    &request),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
                                empty.get());
}

size_t AnswerBytes(const v1::OpenSessionRequest& /*request*/) { return kLongEntryBytes; }

size_t AnswerBytes(const v1::AllocRequest& request) { return BytesOf(request.count()); }

size_t AnswerBytes(const v1::AcquireRequest& request) { return BytesOf(request.total_blocks()); }

size_t AnswerBytes(const v1::LookupRequest& request) {
  const v1::Prefix& prefix = request.prefix();
  // Blocks may be of one token.
  return BytesOf(static_cast<uint64_t>(prefix.tokens_size()) +
                 static_cast<uint64_t>(prefix.block_hashes_size()));
}

size_t AnswerBytes(const v1::PublishRequest& request) {
  return static_cast<size_t>(request.blocks().block_ids_size()) * kBytesPerDuplicate;
}

size_t AnswerBytes(const v1::EvictRequest& request) {
  return BytesOf(uint64_t{request.count()} +
                 static_cast<uint64_t>(request.blocks().block_ids_size()));
}

size_t AnswerBytes(const v1::GetPoolRequest& /*request*/) { return kLongEntryBytes; }

size_t AnswerBytes(const v1::PlanPoolRequest& /*request*/) { return kLongEntryBytes; }

size_t AnswerBytes(const v1::GetSessionRequest& /*request*/) { return BytesOf(kMaxBlocks); }

size_t AnswerBytes(const v1::GetBlockRequest& /*request*/) { return kLongEntryBytes; }

size_t AnswerBytes(const v1::ChecksumLayersRequest& /*request*/) { return kLongEntryBytes; }

size_t AnswerBytes(const v1::CreatePoolRequest& /*request*/) { return kLongEntryBytes; }

}  // namespace kvpool::server
