#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/rpc/call_memory.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/support/random.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {
namespace {

using Stub = v1::BlockService::Stub;
using Answer = v1::PipelineResponse::Answer;
using PipelinedCall = v1::PipelineRequest::Call;

constexpr uint32_t kBlocks = 64;  // Of the pool "main", as is:
constexpr uint32_t kBlockSize = 16;

// A Pipeline, as a client has it.
class Pipeline {
 public:
  explicit Pipeline(Connection& connection) : stream_(connection.blocks->Pipeline(&context_)) {}
  Pipeline(Connection& connection, const std::string& session) : Pipeline(connection) {
    v1::PipelineRequest first;
    first.set_session_id(session);
    REQUIRE(Write(first));
    REQUIRE(Notice() == v1::Notice::KIND_ATTACHED);
  }
  ~Pipeline() {
    context_.TryCancel();
    if (stream_ != nullptr) Finish();
  }

  bool Write(const v1::PipelineRequest& request) { return stream_->Write(request); }
  bool Write(const std::vector<PipelinedCall>& calls) {
    v1::PipelineRequest request;
    for (const PipelinedCall& call : calls) *request.add_calls() = call;
    return Write(request);
  }
  void HalfClose() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }

  // The next `count` answers. Fewer where the stream ends before. Forgets notices.
  std::vector<Answer> Answers(size_t count) {
    std::vector<Answer> answers = std::exchange(read_, {});
    v1::PipelineResponse response;
    while (answers.size() < count && stream_->Read(&response)) {
      answers.insert(answers.end(), response.answers().begin(), response.answers().end());
      ++responses_;
    }
    return answers;
  }
  Answer Do(const PipelinedCall& call) {
    REQUIRE(Write({call}));
    const std::vector<Answer> answers = Answers(1);
    REQUIRE(answers.size() == 1);
    return answers.front();
  }
  // The next notice's kind; UNSPECIFIED where the stream has ended. Keeps answers for Answers.
  v1::Notice::Kind Notice() {
    v1::PipelineResponse response;
    while (stream_->Read(&response)) {
      read_.insert(read_.end(), response.answers().begin(), response.answers().end());
      if (response.has_notice()) return response.notice().kind();
    }
    return v1::Notice::KIND_UNSPECIFIED;
  }
  grpc::Status Finish() {
    v1::PipelineResponse rest;
    while (stream_->Read(&rest)) continue;
    const grpc::Status status = stream_->Finish();
    stream_ = nullptr;
    return status;
  }
  int responses() const { return responses_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PipelineRequest, v1::PipelineResponse>> stream_;
  std::vector<Answer> read_;
  int responses_ = 0;
};

PipelinedCall AllocOf(uint32_t count, uint64_t key = 0) {
  PipelinedCall call;
  call.mutable_alloc()->set_count(count);
  call.mutable_alloc()->set_idempotency_key(key);
  return call;
}

PipelinedCall IncRefOf(const v1::Blocks& blocks) {
  PipelinedCall call;
  *call.mutable_inc_ref()->mutable_blocks() = blocks;
  return call;
}

PipelinedCall DecRefOf(const v1::Blocks& blocks) {
  PipelinedCall call;
  *call.mutable_dec_ref()->mutable_blocks() = blocks;
  return call;
}

PipelinedCall EvictOf(uint32_t count) {
  PipelinedCall call;
  call.mutable_evict()->set_count(count);
  return call;
}

v1::Prefix PrefixOf(uint32_t blocks) {
  v1::Prefix prefix;
  for (uint32_t i = 0; i < blocks * kBlockSize; ++i) prefix.add_tokens(i);
  return prefix;
}

std::string ReasonOf(const Answer& answer) {
  return absl::StrCat(grpc::StatusCode(answer.code()), " ",
                      v1::ErrorDetail::Reason_Name(answer.error().reason()));
}

const std::string kInvalid =
    absl::StrCat(grpc::StatusCode::INVALID_ARGUMENT, " REASON_UNSPECIFIED");

TEST_CASE("Calls of one message are done and answered in order") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Pipeline pipeline(worker, OpenWithModel(worker));
  const v1::Blocks blocks = pipeline.Do(AllocOf(2)).alloc().blocks();
  REQUIRE(blocks.block_ids_size() == 2);

  PipelinedCall publish;
  *publish.mutable_publish()->mutable_prefix() = PrefixOf(2);
  *publish.mutable_publish()->mutable_blocks() = blocks;
  PipelinedCall lookup;
  *lookup.mutable_lookup()->mutable_prefix() = PrefixOf(3);
  PipelinedCall acquire;
  *acquire.mutable_acquire()->mutable_prefix() = PrefixOf(3);
  acquire.mutable_acquire()->set_total_blocks(4);
  REQUIRE(pipeline.Write({IncRefOf(blocks), publish, DecRefOf(blocks), DecRefOf(blocks), lookup,
                          acquire, EvictOf(9)}));
  const std::vector<Answer> answers = pipeline.Answers(7);
  REQUIRE(answers.size() == 7);
  for (const Answer& answer : answers) CHECK(answer.code() == 0);
  CHECK(answers[0].has_inc_ref());
  CHECK(answers[1].publish().published() == 2);
  CHECK(answers[2].dec_ref().cached() == 0);
  CHECK(answers[3].dec_ref().cached() == 2);
  CHECK(answers[4].lookup().matched_tokens() == 32);
  CHECK(answers[5].acquire().matched_blocks() == 2);
  CHECK(answers[5].acquire().blocks().block_ids_size() == 4);
  CHECK(answers[6].evict().block_ids_size() == 0);  // All cached ones are held.
}

TEST_CASE("A call that fails says why, and those after it go on") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Pipeline pipeline(worker, OpenSession(worker));
  PipelinedCall waiting = AllocOf(1);
  waiting.mutable_alloc()->mutable_wait()->set_seconds(1);
  PipelinedCall waiting_acquire;
  waiting_acquire.mutable_acquire()->mutable_wait();
  PipelinedCall others = AllocOf(1);
  others.mutable_alloc()->set_session_id(OpenSession(worker));
  v1::Blocks not_held;
  not_held.add_block_ids(3);
  REQUIRE(pipeline.Write({waiting, waiting_acquire, others, PipelinedCall(), DecRefOf(not_held),
                          AllocOf(kBlocks), AllocOf(1)}));
  const std::vector<Answer> answers = pipeline.Answers(7);
  REQUIRE(answers.size() == 7);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(ReasonOf(answers[i]) == kInvalid);
    CHECK(answers[i].answer_case() == Answer::ANSWER_NOT_SET);
  }
  CHECK(answers[0].message().find("wait") != std::string::npos);
  CHECK(answers[2].message().find("session_id") != std::string::npos);
  CHECK(answers[4].error().reason() == v1::ErrorDetail::REASON_NOT_HELD);
  CHECK(answers[4].error().block_id() == 3);
  CHECK(answers[5].alloc().blocks().block_ids_size() == kBlocks);
  CHECK(answers[6].error().reason() == v1::ErrorDetail::REASON_POOL_FULL);
  CHECK(answers[6].error().available() == 0);
}

TEST_CASE("A Pipeline's first message names a session that no other stream has") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const auto end_after = [&](const v1::PipelineRequest& first) {
    Pipeline pipeline(worker);
    pipeline.Write(first);
    pipeline.HalfClose();
    return CodeOf(pipeline.Finish());
  };
  v1::PipelineRequest first;
  CHECK(end_after(first) == "INVALID_ARGUMENT");
  first.set_session_id(std::string(32, 'a'));
  CHECK(end_after(first) == "NOT_FOUND SESSION_UNKNOWN");
  const std::string session = OpenSession(worker);
  first.set_session_id(session);
  const Pipeline attached(worker, session);
  CHECK(end_after(first) == "FAILED_PRECONDITION ATTACHED");
  Connection other = server.Connect(v1::ROLE_WORKER, "tenant-b");
  Pipeline of_other(other);
  REQUIRE(of_other.Write(first));
  CHECK(CodeOf(of_other.Finish()) == "PERMISSION_DENIED");
  Pipeline empty(worker);
  empty.HalfClose();
  CHECK(CodeOf(empty.Finish()) == "INVALID_ARGUMENT");
  CHECK(server.pool().counts().sessions == 1);
}

TEST_CASE("A later message that names another session ends the stream and its session") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Pipeline pipeline(worker, session);
  v1::PipelineRequest later;
  later.set_session_id(session);
  *later.add_calls() = AllocOf(1);
  REQUIRE(pipeline.Write(later));
  CHECK(pipeline.Answers(1).size() == 1);
  later.set_session_id(OpenSession(worker));
  REQUIRE(pipeline.Write(later));
  CHECK(CodeOf(pipeline.Finish()) == "INVALID_ARGUMENT");
  CHECK(Eventually([&] { return server.pool().counts().sessions == 1; }));
}

TEST_CASE("Half-closing ends the session once all that came before is answered") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Pipeline pipeline(worker, OpenSession(worker));
  for (int i = 0; i < 100; ++i) REQUIRE(pipeline.Write({AllocOf(1), AllocOf(0)}));
  pipeline.HalfClose();
  const std::vector<Answer> answers = pipeline.Answers(1'000);
  REQUIRE(answers.size() == 200);
  CHECK(answers[2 * (kBlocks - 1)].code() == 0);
  CHECK(answers[2 * kBlocks].code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(CodeOf(pipeline.Finish()) == "OK");
  CHECK(Eventually([&] { return server.pool().counts().sessions == 0; }));
}

TEST_CASE("A Pipeline that breaks ends its session") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Pipeline pipeline(worker, OpenSession(worker));
  pipeline.Do(AllocOf(1));
  server.Pass(std::chrono::hours(2));  // Attached, it does not expire.
  CHECK(server.pool().counts().sessions == 1);
  pipeline.Cancel();
  CHECK(Eventually([&] { return server.pool().counts().sessions == 0; }));
}

TEST_CASE("A Pipeline ends OK after CloseSession, and tells of a session that is terminated") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::CloseSessionRequest close;
  close.set_session_id(OpenSession(worker));
  Pipeline closed(worker, close.session_id());
  closed.Do(AllocOf(1));
  REQUIRE(Call(*worker.blocks, &Stub::CloseSession, close).ok());
  CHECK(CodeOf(closed.Finish()) == "OK");
  CHECK(server.pool().counts().free_blocks == kBlocks);

  v1::TerminateSessionRequest terminate;
  terminate.set_session_id(OpenSession(worker));
  Pipeline terminated(worker, terminate.session_id());
  Connection operator_ = server.Connect(v1::ROLE_OPERATOR);
  REQUIRE(Call(*operator_.admin, &v1::AdminService::Stub::TerminateSession, terminate).ok());
  CHECK(terminated.Notice() == v1::Notice::KIND_TERMINATED);
  CHECK(CodeOf(terminated.Finish()) == "NOT_FOUND SESSION_UNKNOWN");
}

TEST_CASE("A key gives the same answer on a Pipeline and beside it") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Pipeline pipeline(worker, session);
  const Answer first = pipeline.Do(AllocOf(3, 7));
  v1::AllocRequest again;
  again.set_session_id(session);
  again.set_count(3);
  again.set_idempotency_key(7);
  v1::AllocResponse response;
  REQUIRE(Call(*worker.blocks, &Stub::Alloc, again, response).ok());
  CHECK(response.blocks().SerializeAsString() == first.alloc().blocks().SerializeAsString());
  CHECK(server.pool().counts().held_blocks == 3);
}

TEST_CASE("What takes longer than a turn keeps its order, blocks to be filled too") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Pipeline pipeline(worker, OpenSession(worker));
  std::vector<PipelinedCall> calls;
  for (int i = 0; i < 3'000; ++i) {
    if (i % 3 == 0) calls.push_back(AllocOf(i % 2 == 0 ? kBlocks + 1 : 0));
    if (i % 3 == 1) calls.push_back(EvictOf(60'000));
    if (i % 3 == 2) {
      calls.push_back(AllocOf(0));
      calls.back().mutable_alloc()->set_fill(v1::FILL_ZERO);
    }
  }
  calls.push_back(AllocOf(kBlocks));
  calls.back().mutable_alloc()->set_fill(v1::FILL_ZERO);
  calls.push_back(AllocOf(1));
  REQUIRE(pipeline.Write(calls));
  const std::vector<Answer> answers = pipeline.Answers(3'002);
  REQUIRE(answers.size() == 3'002);
  for (size_t i = 0; i < 3'000; ++i) {
    CAPTURE(i);
    CHECK(answers[i].has_evict() == (i % 3 == 1));
    CHECK((answers[i].code() != 0) == (i % 3 == 0 && i % 2 == 0));
  }
  CHECK(answers[3'000].alloc().blocks().block_ids_size() == kBlocks);
  CHECK(answers[3'001].error().reason() == v1::ErrorDetail::REASON_POOL_FULL);
}

TEST_CASE("A caller that reads late gets every answer, few messages for many calls") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Pipeline pipeline(worker, OpenSession(worker));
  const v1::Blocks blocks = pipeline.Do(AllocOf(kBlocks)).alloc().blocks();
  constexpr size_t kMessages = 2'000;
  constexpr size_t kCallsAMessage = 16;
  std::jthread writer([&] {
    // Each refusal has some 100 bytes: more together than may wait.
    const std::vector<PipelinedCall> calls(kCallsAMessage, AllocOf(1));
    for (size_t i = 0; i < kMessages; ++i) pipeline.Write(calls);
  });
  const std::vector<Answer> answers = pipeline.Answers(kMessages * kCallsAMessage);
  writer.join();
  CHECK(answers.size() == kMessages * kCallsAMessage);
  CHECK(pipeline.responses() <= static_cast<int>(kMessages * kCallsAMessage / 4));
}

TEST_CASE("A message has so many calls and no more") {
  TestServerOptions options;
  options.limits.max_blocks_per_call = 100;
  TestServer server(options);
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Pipeline pipeline(worker, OpenSession(worker));
  REQUIRE(pipeline.Write(std::vector<PipelinedCall>(100, AllocOf(0))));
  CHECK(pipeline.Answers(100).size() == 100);
  REQUIRE(pipeline.Write(std::vector<PipelinedCall>(101, AllocOf(0))));
  CHECK(CodeOf(pipeline.Finish()) == "INVALID_ARGUMENT");
}

TEST_CASE("A message that there is no memory for has its calls refused, and its session goes on") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Pipeline pipeline(worker, OpenWithModel(worker));
  const v1::Blocks blocks = pipeline.Do(AllocOf(2)).alloc().blocks();
  PipelinedCall lookup;
  *lookup.mutable_lookup()->mutable_prefix() = PrefixOf(kBlocks);
  {
    constexpr size_t kStreams = server::kMaxProcessCallBytes / (2 * server::kStreamBytes);
    std::vector<std::string> sessions;
    for (size_t i = 1; i < kStreams; ++i) sessions.push_back(OpenSession(worker));
    // A call may hold memory for a while after it was answered.
    REQUIRE(
        Eventually([&] { return server.call_memory().taken_bytes() == 2 * server::kStreamBytes; }));
    std::deque<Pipeline> others;
    for (const std::string& session : sessions) others.emplace_back(worker, session);
    REQUIRE(server.call_memory().taken_bytes() == server::kMaxProcessCallBytes);
    REQUIRE(pipeline.Write({lookup, DecRefOf(blocks), AllocOf(1)}));
    const std::vector<Answer> answers = pipeline.Answers(3);
    REQUIRE(answers.size() == 3);
    for (const Answer& answer : answers) {
      CHECK(answer.code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
      CHECK(answer.error().reason() == v1::ErrorDetail::REASON_LIMIT);
    }
    // Nothing was done, and short messages go on.
    CHECK(server.pool().counts().held_blocks == 2);
    CHECK(pipeline.Do(DecRefOf(blocks)).code() == 0);
  }
  CHECK(Eventually([&] { return pipeline.Do(lookup).code() == 0; }));
}

// What unary calls answer, in a Pipeline's words.
Answer DoUnary(Connection& connection, const std::string& session, PipelinedCall call) {
  Answer answer;
  grpc::Status status;
  if (call.has_alloc()) {
    call.mutable_alloc()->set_session_id(session);
    status = Call(*connection.blocks, &Stub::Alloc, call.alloc(), *answer.mutable_alloc());
  } else if (call.has_inc_ref()) {
    call.mutable_inc_ref()->set_session_id(session);
    status = Call(*connection.blocks, &Stub::IncRef, call.inc_ref(), *answer.mutable_inc_ref());
  } else if (call.has_dec_ref()) {
    call.mutable_dec_ref()->set_session_id(session);
    status = Call(*connection.blocks, &Stub::DecRef, call.dec_ref(), *answer.mutable_dec_ref());
  } else if (call.has_publish()) {
    call.mutable_publish()->set_session_id(session);
    status = Call(*connection.blocks, &Stub::Publish, call.publish(), *answer.mutable_publish());
  } else if (call.has_acquire()) {
    call.mutable_acquire()->set_session_id(session);
    status = Call(*connection.blocks, &Stub::Acquire, call.acquire(), *answer.mutable_acquire());
  } else {
    call.mutable_evict()->set_session_id(session);
    status = Call(*connection.blocks, &Stub::Evict, call.evict(), *answer.mutable_evict());
  }
  if (status.ok()) return answer;
  Answer failed;
  failed.set_code(status.error_code());
  failed.set_message(status.error_message());
  *failed.mutable_error() = DetailOf(status);
  return failed;
}

PipelinedCall RandomCall(Random& random) {
  v1::Blocks some;
  for (uint32_t i = 0; i <= random.Below(3); ++i) some.add_block_ids(random.Below(kBlocks));
  PipelinedCall call;
  switch (random.Below(6)) {
    case 0:
      return AllocOf(random.Below(12), random.Below(5));
    case 1:
      return IncRefOf(some);
    case 2:
      return DecRefOf(some);
    case 3:
      *call.mutable_publish()->mutable_prefix() =
          PrefixOf(static_cast<uint32_t>(some.block_ids_size()));
      *call.mutable_publish()->mutable_blocks() = some;
      return call;
    case 4:
      *call.mutable_acquire()->mutable_prefix() = PrefixOf(random.Below(5));
      call.mutable_acquire()->set_total_blocks(random.Below(8));
      return call;
    default:
      return EvictOf(random.Below(4));
  }
}

TEST_CASE("A Pipeline answers what the unary calls would") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  Random random(seed);
  TestServer pipelined;
  TestServer unary;
  Connection pipelined_worker = pipelined.Connect(v1::ROLE_WORKER);
  Connection unary_worker = unary.Connect(v1::ROLE_WORKER);
  Pipeline pipeline(pipelined_worker, OpenWithModel(pipelined_worker));
  const std::string session = OpenWithModel(unary_worker);
  for (int round = 0; round < 100; ++round) {
    std::vector<PipelinedCall> calls;
    for (uint32_t i = 0; i < 1 + random.Below(20); ++i) calls.push_back(RandomCall(random));
    REQUIRE(pipeline.Write(calls));
    const std::vector<Answer> answers = pipeline.Answers(calls.size());
    REQUIRE(answers.size() == calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
      CAPTURE(round, i, calls[i].ShortDebugString());
      CHECK(answers[i].ShortDebugString() ==
            DoUnary(unary_worker, session, calls[i]).ShortDebugString());
    }
  }
}

}  // namespace
}  // namespace kvpool::test
