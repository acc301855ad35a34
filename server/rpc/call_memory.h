#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include <google/protobuf/message.h>

#include "kvpool/v1/admin.pb.h"
#include "kvpool/v1/block.pb.h"
#include "kvpool/v1/inspect.pb.h"
#include "server/memory_budget.h"
#include "server/process_table.h"
#include "server/rpc/step_order.h"

namespace kvpool::server {

// Below this a call's memory is not counted: 1,024 such calls of a connection are 16 MiB.
inline constexpr size_t kUncountedCallBytes = 16 << 10;

// What a stream of answers holds while nobody reads: a message of at most 1 MiB, and its bytes in
// gRPC's hands.
inline constexpr size_t kStreamBytes = 2 << 20;

// CallMemory is what a call in progress takes of the memory that its process, and all processes,
// may hold by calls. Gives it back when destroyed, which is when the call is done: a caller that
// does not read its answer holds on to it.
class CallMemory {
 public:
  CallMemory() = default;  // Of nothing.

  // `all` null: of what the process may hold alone. Errors: RESOURCE_EXHAUSTED (LIMIT), naming the
  // bytes.
  static absl::StatusOr<CallMemory> Take(MemoryBudget* all, std::shared_ptr<const Process> process,
                                         size_t bytes);
  ~CallMemory();

  CallMemory(CallMemory&& other) noexcept = default;
  CallMemory& operator=(CallMemory&& other) noexcept;

  bool is_empty() const { return process_ == nullptr; }

 private:
  CallMemory(MemoryBudget* all, std::shared_ptr<const Process> process, size_t bytes)
      : all_(all), process_(std::move(process)), bytes_(bytes) {
    StepOrder::EndAt(process_.get());  // It is taken in a call's first step, given in its last.
  }

  MemoryBudget* all_ = nullptr;             // Null: not counted there.
  std::shared_ptr<const Process> process_;  // Null: of nothing.
  size_t bytes_ = 0;
};

// The bytes that a request takes, as parsed and as the call it becomes; 0 for the short ones that
// nearly all are. A message of 8 MiB can become thirty times as much: empty strings, unknown
// fields.
size_t RequestBytes(const google::protobuf::Message& request);

// Frees what a refused call's request holds: the call itself lives until its caller has taken the
// answer. Nobody may look at the request again.
void DropRequest(const google::protobuf::Message& request);

// What the answer may take at most, as built and as bytes, where it can be long.
inline size_t AnswerBytes(const google::protobuf::Message& /*request*/) { return 0; }
size_t AnswerBytes(const v1::OpenSessionRequest& request);
size_t AnswerBytes(const v1::AllocRequest& request);
size_t AnswerBytes(const v1::AcquireRequest& request);
size_t AnswerBytes(const v1::LookupRequest& request);
size_t AnswerBytes(const v1::PublishRequest& request);
size_t AnswerBytes(const v1::EvictRequest& request);
size_t AnswerBytes(const v1::GetPoolRequest& request);
size_t AnswerBytes(const v1::PlanPoolRequest& request);
size_t AnswerBytes(const v1::GetSessionRequest& request);
size_t AnswerBytes(const v1::GetBlockRequest& request);
size_t AnswerBytes(const v1::ChecksumLayersRequest& request);
size_t AnswerBytes(const v1::CreatePoolRequest& request);

}  // namespace kvpool::server
