#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "core/check.h"
#include "tests/bench/system/echo_process.h"
#include "tests/bench/system/report.h"
#include "tests/bench/system/samples.h"
#include "tests/bench/system/scenarios.h"
#include "tests/bench/system/worker.h"
#include "tests/support/daemon_process.h"

namespace kvpool::bench {
namespace {

constexpr int kRestarts = 12;
constexpr int kWarmUpCalls = 500;
constexpr int kRounds = 10;
constexpr int kCallsARound = 200;
constexpr int kInFlight = 64;
constexpr int kFlightCalls = 20'000;
// The bytes of a PipelineRequest with an Alloc or a DecRef of one block.
constexpr size_t kEchoBytes = 8;

constexpr char kPool[] =
    R"([{"name": "bench", "numLayers": 1, "numKvHeads": 1, "headDim": 16, "numBlocks": 100000}])";

// A stream that answers calls; each `Ask` is a message of so many calls, each `Take` one message,
// and says how many calls it answers.
class EchoCalls {
 public:
  explicit EchoCalls(EchoProcess& echo) : stream_(echo.stub().Stream(&context_)) {
    message_.set_data(std::string(kEchoBytes, 'x'));
  }
  ~EchoCalls() {
    stream_->WritesDone();
    KVPOOL_CHECK(stream_->Finish().ok());
  }

  void Ask(int calls) {
    for (int i = 0; i < calls; ++i) KVPOOL_CHECK(stream_->Write(message_));
  }
  int Take() {
    EchoMessage message;
    KVPOOL_CHECK(stream_->Read(&message));
    return 1;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<EchoMessage, EchoMessage>> stream_;
  EchoMessage message_;
};

// Allocates a block and lets go of it in turn.
class PipelinedCalls {
 public:
  explicit PipelinedCalls(test::DaemonProcess& daemon)
      : stub_(v1::BlockService::NewStub(daemon.Connect(daemon.worker_socket()))),
        stream_(stub_->Pipeline(&context_)) {
    v1::PipelineRequest first;
    first.set_session_id(OpenSession(*stub_, "bench"));
    KVPOOL_CHECK(stream_->Write(first));
    v1::PipelineResponse attached;
    KVPOOL_CHECK(stream_->Read(&attached) && attached.has_notice());
  }
  ~PipelinedCalls() {
    stream_->WritesDone();
    KVPOOL_CHECK(stream_->Finish().ok());
  }

  void Ask(int calls) {
    v1::PipelineRequest request;
    for (int i = 0; i < calls; ++i) {
      if (held_.block_ids().empty()) {
        request.add_calls()->mutable_alloc()->set_count(1);
      } else {
        v1::Blocks& released = *request.add_calls()->mutable_dec_ref()->mutable_blocks();
        released.add_block_ids(held_.block_ids(held_.block_ids_size() - 1));
        held_.mutable_block_ids()->RemoveLast();
      }
    }
    KVPOOL_CHECK(stream_->Write(request));
  }
  int Take() {
    v1::PipelineResponse response;
    KVPOOL_CHECK(stream_->Read(&response));
    for (const auto& answer : response.answers()) {
      KVPOOL_CHECK(answer.code() == 0);
      held_.mutable_block_ids()->MergeFrom(answer.alloc().blocks().block_ids());
    }
    return response.answers_size();
  }

 private:
  std::unique_ptr<v1::BlockService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PipelineRequest, v1::PipelineResponse>> stream_;
  v1::Blocks held_;
};

template <typename Calls>
void MeasureOneInFlight(Calls& calls, int count, Samples* samples) {
  for (int i = 0; i < count; ++i) {
    const double time = Time([&] {
      calls.Ask(1);
      calls.Take();
    });
    if (samples != nullptr) samples->Add(time);
  }
}

// Calls a second with kInFlight in flight: who takes k answers asks for k more.
template <typename Calls>
double MeasureInFlight(Calls& calls) {
  const double microseconds = Time([&] {
    for (int i = 0; i < kInFlight; ++i) calls.Ask(1);
    for (int taken = 0, asked = kInFlight; taken < kFlightCalls;) {
      const int answers = calls.Take();
      taken += answers;
      const int more = std::min(answers, kFlightCalls - asked);
      if (more > 0) calls.Ask(more);
      asked += more;
    }
  });
  return kFlightCalls / microseconds * 1e6;
}

std::string CallsASecond(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f calls/s", value);
  return text;
}

}  // namespace

void RunPipeline() {
  Samples echo_medians, pipeline_medians, echo_rates, pipeline_rates;
  for (int restart = 0; restart < kRestarts; ++restart) {
    EchoProcess echo;
    test::DaemonProcess daemon({.pools_json = kPool});
    EchoCalls echoed(echo);
    PipelinedCalls pipelined(daemon);
    MeasureOneInFlight(echoed, kWarmUpCalls, nullptr);
    MeasureOneInFlight(pipelined, kWarmUpCalls, nullptr);
    Samples echo_times, pipeline_times;
    for (int round = 0; round < kRounds; ++round) {
      MeasureOneInFlight(echoed, kCallsARound, &echo_times);
      MeasureOneInFlight(pipelined, kCallsARound, &pipeline_times);
    }
    echo_medians.Add(echo_times.Median());
    pipeline_medians.Add(pipeline_times.Median());
    echo_rates.Add(MeasureInFlight(echoed));
    pipeline_rates.Add(MeasureInFlight(pipelined));
  }
  Report("2", "Alloc(1) and DecRef(1) on Pipeline, one in flight, median of p50s",
         Microseconds(pipeline_medians.Median()), "echo " + Microseconds(echo_medians.Median()),
         pipeline_medians.Median() / echo_medians.Median());
  Report("2", "the same, 64 in flight, median", CallsASecond(pipeline_rates.Median()),
         "echo " + CallsASecond(echo_rates.Median()),
         pipeline_rates.Median() / echo_rates.Median());
}

}  // namespace kvpool::bench
