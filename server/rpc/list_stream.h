#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <grpcpp/support/server_callback.h>

#include "server/rpc/admission.h"
#include "server/rpc/status_mapping.h"
#include "server/rpc/step_order.h"

namespace kvpool::server {

// What a message of a list has at most, but for its last entry: clients take 4 MiB unless told
// otherwise. No entry is larger than 256 KiB.
inline constexpr size_t kListMessageBytes = size_t{512} << 10;

// Fills the next message of a list; false: there is none. Must keep no pool alive between calls:
// a client may be slow.
template <typename Message>
using NextMessage = std::function<absl::StatusOr<bool>(Message&)>;

// A stream of messages that together are a list, each filled when the one before has been taken.
//
// Its steps follow one another, each begun by the end of the one before: no two threads are in
// it. A cancelled call shows as a write that fails. Owns itself until OnDone; work in progress
// keeps it alive.
template <typename Message>
class ListStream final : public grpc::ServerWriteReactor<Message> {
 public:
  // A stream that has not begun. `workers`, where messages are filled, must outlive it.
  static std::shared_ptr<ListStream> Make(FairQueue& workers, AdmittedCall call) {
    std::shared_ptr<ListStream> stream(new ListStream(workers, std::move(call)));
    stream->self_ = stream;
    return stream;
  }

  // Once, on any thread: begins to send.
  void Begin(NextMessage<Message> next) {
    next_ = std::move(next);
    Continue();
  }
  // Instead of Begin.
  void Refuse(const absl::Status& status) { this->Finish(ToGrpcStatus(status)); }

 private:
  ListStream(FairQueue& workers, AdmittedCall call) : call_(std::move(call)), workers_(workers) {}

  void Continue() {
    workers_.Post(call_.peer->process->id(), [self = self_] { self->Send(); });
  }

  void Send() {
    message_.Clear();
    const absl::StatusOr<bool> has_more = next_(message_);
    order_.End();
    if (has_more.ok() && *has_more) {
      this->StartWrite(&message_);
    } else {
      this->Finish(ToGrpcStatus(has_more.status()));
    }
  }

  void OnWriteDone(bool ok) override {
    order_.Begin();
    if (ok) {
      Continue();
    } else {
      this->Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the stream broke"));
    }
  }

  void OnDone() override { const std::shared_ptr<ListStream> last = std::move(self_); }

  const AdmittedCall call_;
  StepOrder order_;
  FairQueue& workers_;
  NextMessage<Message> next_;
  Message message_;
  std::shared_ptr<ListStream> self_;  // Set before it starts, reset when it is done.
};

}  // namespace kvpool::server
