#include "tests/fuzz/served_calls.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include <google/protobuf/descriptor.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include "core/layout/pool_layout.h"
#include "proto/convert/layout_convert.h"
#include "tests/fuzz/finding.h"
#include "tests/support/send_all.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using google::protobuf::Reflection;

constexpr char kPool[] = "p";
constexpr int kMaxCalls = 32;
// A pool that an input makes is to take no more.
constexpr uint64_t kMaxPoolBytes = 16 << 20;
// How long a call that may wait is left to.
constexpr std::chrono::milliseconds kWait(2);

// The methods by what they take.
const std::map<const google::protobuf::Descriptor*, const MethodDescriptor*>& Methods() {
  static const auto& methods = *[] {
    auto* made = new std::map<const google::protobuf::Descriptor*, const MethodDescriptor*>();
    for (const google::protobuf::Descriptor* message :
         {v1::OpenSessionRequest::descriptor(), v1::GetDaemonRequest::descriptor(),
          v1::DrainRequest::descriptor()}) {
      const google::protobuf::ServiceDescriptor& service = *message->file()->service(0);
      for (int i = 0; i < service.method_count(); ++i) {
        (*made)[service.method(i)->input_type()] = service.method(i);
      }
    }
    return made;
  }();
  return methods;
}

// Replaces the names of sessions by their ids, everywhere in `message`.
void NameSessions(Message& message, const std::vector<std::string>& sessions) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) {
        NameSessions(*reflection.MutableMessage(&message, field), sessions);
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        NameSessions(*reflection.MutableRepeatedMessage(&message, field, i), sessions);
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field->is_repeated()) {
      const std::string text = reflection.GetString(message, field);
      absl::string_view digits = text;
      size_t number = 0;
      if (absl::ConsumePrefix(&digits, "s") && absl::SimpleAtoi(digits, &number) &&
          number < sessions.size()) {
        reflection.SetString(&message, field, sessions[number]);
      }
    }
  }
}

struct Answer {
  grpc::Status status;
  std::string first;  // Message.
  bool was_cancelled = false;
};

// What the call ends with. `never_ends`: it is broken off after its first answer.
Answer CallMethod(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                  const std::vector<std::string>& messages, bool never_ends) {
  Answer answer;
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto stream = stub.PrepareCall(&context, path, &queue);
  const auto cancel = [&] {
    context.TryCancel();
    answer.was_cancelled = true;
  };
  // One step at a time; false where the stream has ended.
  const auto step = [&] {
    void* tag = nullptr;
    bool ok = false;
    while (queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kWait) ==
           grpc::CompletionQueue::TIMEOUT) {
      const bool may_wait = absl::StrContains(path, "/A") || never_ends;
      if (may_wait && !answer.was_cancelled) cancel();
    }
    return ok;
  };
  SendAll(*stream, messages, step);
  for (bool is_first = true;; is_first = false) {
    grpc::ByteBuffer bytes;
    stream->Read(&bytes, nullptr);
    if (!step()) break;
    if (is_first) {
      grpc::Slice slice;
      if (bytes.DumpToSingleSlice(&slice).ok()) {
        answer.first.assign(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
      if (never_ends) cancel();
    }
  }
  stream->Finish(&answer.status, nullptr);
  step();
  return answer;
}

// Whether it would make a pool that takes too much of the machine.
bool IsTooLarge(const v1::CreatePoolRequest& request) {
  const auto spec = SpecFromProto(request.spec());
  if (!spec.ok() || spec->memory_utilization.has_value()) return spec.ok();
  const auto layout = PlanPool(*spec);
  return layout.ok() &&
         (layout->shard_bytes * layout->num_shards() > kMaxPoolBytes || layout->num_blocks > 4096);
}

v1::PoolSpec PoolOf32Blocks() {
  v1::PoolSpec spec = MainPoolSpec();
  spec.set_name(kPool);
  spec.set_num_blocks(32);
  spec.set_block_size(4);
  return spec;
}

}  // namespace

struct ServedCalls::Impl {
  void Run(fuzz::Calls calls) {
    Begin();
    if (calls.calls_size() > kMaxCalls) {
      calls.mutable_calls()->DeleteSubrange(kMaxCalls, calls.calls_size() - kMaxCalls);
    }
    for (fuzz::Call& call : *calls.mutable_calls()) Make(call);
    End();
  }

 private:
  void Begin() {
    v1::CreatePoolRequest create;
    *create.mutable_spec() = PoolOf32Blocks();
    const grpc::Status created =
        test::Call(*operator_.admin, &v1::AdminService::Stub::CreatePool, create);
    Expect(created.ok(), "the pool cannot be made: " + created.error_message());
    pools_ = {kPool};
    was_cancelled_ = false;
    sessions_.clear();
    for (int i = 0; i < 2; ++i) {
      v1::OpenSessionRequest open;
      open.set_pool(kPool);
      open.set_model_id("m");
      v1::OpenSessionResponse opened;
      Expect(test::Call(*worker_.blocks, &v1::BlockService::Stub::OpenSession, open, opened).ok(),
             "no session in an empty pool");
      sessions_.push_back(opened.session_id());
    }
  }

  void Make(fuzz::Call& call) {
    const FieldDescriptor* field = call.GetReflection()->GetOneofFieldDescriptor(
        call, fuzz::Call::descriptor()->oneof_decl(0));
    if (field == nullptr) return;
    if (call.call_case() == fuzz::Call::kPassMs) {
      return server_.Pass(std::chrono::milliseconds(call.pass_ms()));
    }
    if (call.call_case() == fuzz::Call::kCreatePool && IsTooLarge(call.create_pool())) return;
    NameSessions(call, sessions_);
    Message& given = *call.GetReflection()->MutableMessage(&call, field);
    std::vector<std::string> messages;
    const MethodDescriptor* method = nullptr;
    if (const auto it = Methods().find(given.GetDescriptor()); it != Methods().end()) {
      method = it->second;
      messages.push_back(given.SerializePartialAsString());
    } else {
      const FieldDescriptor* list = given.GetDescriptor()->field(0);
      method = Methods().at(list->message_type());
      for (int i = 0; i < given.GetReflection()->FieldSize(given, list); ++i) {
        messages.push_back(
            given.GetReflection()->GetRepeatedMessage(given, list, i).SerializePartialAsString());
      }
    }
    CallAndCheck(call, *method, messages);
  }

  void CallAndCheck(const fuzz::Call& call, const MethodDescriptor& method,
                    const std::vector<std::string>& messages) {
    const bool never_ends = call.call_case() == fuzz::Call::kKeepAlive ||
                            call.call_case() == fuzz::Call::kWatchPrefixes;
    const bool is_admin = method.service()->name() == "AdminService";
    const std::string path = absl::StrCat("/", method.service()->full_name(), "/", method.name());
    const bool had_pool = HasPool(kPool);
    const LedgerCounts before = had_pool ? server_.pool(kPool).counts() : LedgerCounts();
    const Answer answer =
        CallMethod((is_admin ? operator_ : worker_).channel, path, messages, never_ends);
    was_cancelled_ = was_cancelled_ || answer.was_cancelled;
    Note(call, answer);
    Expect(answer.status.error_code() != grpc::StatusCode::INTERNAL,
           path + " fails as only a bug may: " + answer.status.error_message());
    Expect(answer.status.error_code() != grpc::StatusCode::UNKNOWN, path + " has no code");
    if (!HasPool(kPool)) return;
    const absl::Status invariants = server_.pool(kPool).CheckInvariants();
    Expect(invariants.ok(), path + " broke an invariant: " + invariants.ToString());
    // What was cancelled may end later than its answer; of a stream of messages some were right.
    if (!answer.status.ok() && had_pool && !was_cancelled_ && messages.size() <= 1) {
      Expect(before == server_.pool(kPool).counts(),
             path + " is refused and changes something: " + answer.status.error_message());
    }
  }

  void Note(const fuzz::Call& call, const Answer& answer) {
    if (!answer.status.ok()) return;
    if (call.call_case() == fuzz::Call::kOpenSession) {
      v1::OpenSessionResponse opened;
      Expect(opened.ParseFromString(answer.first), "an answer that is none");
      sessions_.push_back(opened.session_id());
    } else if (call.call_case() == fuzz::Call::kCreatePool) {
      pools_.push_back(call.create_pool().spec().name());
    } else if (call.call_case() == fuzz::Call::kDeletePool) {
      std::erase(pools_, call.delete_pool().name());
    }
  }

  bool HasPool(const std::string& name) const {
    return std::ranges::find(pools_, name) != pools_.end();
  }

  void End() {
    server_.draining() = false;
    for (const std::string& name : pools_) Empty(name);
  }

  // Ends everybody in the pool, sees that nothing is left, and deletes it.
  void Empty(const std::string& name) {
    {
      Pool& pool = server_.pool(name);
      // Streams and waits that were broken off may end later than these.
      while (!pool.is_idle() || !pool.ListSessions().empty()) {
        for (const SessionInfo& session : pool.ListSessions()) {
          static_cast<void>(pool.TerminateSession(session.id, /*release_claims=*/true));
        }
        pool.ResetPrefixes(std::nullopt);
        pool.Advance();
      }
      pool.ResetPrefixes(std::nullopt);
      while (pool.counts().free_blocks != pool.layout().num_blocks) pool.Advance();
      const absl::Status invariants = pool.CheckInvariants();
      Expect(invariants.ok(), "an empty pool is not whole: " + invariants.ToString());
    }
    v1::DeletePoolRequest request;
    request.set_name(name);
    const grpc::Status deleted =
        test::Call(*operator_.admin, &v1::AdminService::Stub::DeletePool, request);
    Expect(deleted.ok(), "a pool that nobody uses cannot be deleted: " + deleted.error_message());
  }

  TestServer server_;
  Connection worker_ = server_.Connect(v1::ROLE_WORKER);
  Connection operator_ = server_.Connect(v1::ROLE_OPERATOR);
  std::vector<std::string> pools_;
  std::vector<std::string> sessions_;
  bool was_cancelled_ = false;  // Any call of this input.
};

ServedCalls::ServedCalls() : impl_(std::make_unique<Impl>()) {}
ServedCalls::~ServedCalls() = default;

void ServedCalls::Run(fuzz::Calls calls) { impl_->Run(std::move(calls)); }

}  // namespace kvpool::test
