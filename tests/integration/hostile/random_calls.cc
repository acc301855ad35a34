#include "tests/integration/hostile/random_calls.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "core/status_macros.h"
#include "kvpool/v1/admin.pb.h"
#include "kvpool/v1/block.pb.h"
#include "kvpool/v1/inspect.pb.h"
#include "tests/integration/hostile/generic_call.h"
#include "tests/integration/hostile/random_message.h"
#include "tests/integration/hostile/wire_bytes.h"
#include "tests/support/random.h"

namespace kvpool::test {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

// A stream that a call opened, and a call that waits, end by it.
constexpr std::chrono::milliseconds kDeadline(100);

std::vector<const MethodDescriptor*> Methods(const std::vector<std::string>& without) {
  std::vector<const MethodDescriptor*> methods;
  for (const Descriptor* message :
       {v1::OpenSessionRequest::descriptor(), v1::GetDaemonRequest::descriptor(),
        v1::DrainRequest::descriptor()}) {
    for (int i = 0; i < message->file()->service_count(); ++i) {
      const google::protobuf::ServiceDescriptor& service = *message->file()->service(i);
      for (int j = 0; j < service.method_count(); ++j) {
        const bool is_left_out = std::ranges::count(without, service.method(j)->name()) > 0;
        if (!is_left_out) methods.push_back(service.method(j));
      }
    }
  }
  return methods;
}

// Whether an error is the daemon's own, as gRPC's are not: it says why.
bool HasDetail(const absl::Status& status) {
  bool has_payload = false;
  status.ForEachPayload(
      [&has_payload](absl::string_view, const absl::Cord&) { has_payload = true; });
  return has_payload;
}

std::unique_ptr<Message> New(const MethodDescriptor& method) {
  const Message* prototype =
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(method.input_type());
  return std::unique_ptr<Message>(prototype->New());
}

std::string RandomRequest(const MethodDescriptor& method, const RandomCallsOptions& options,
                          Random& random) {
  if (options.words.empty() || random.OneIn(4)) return RandomBytes(random, random.Below(200));
  const std::unique_ptr<Message> message = New(method);
  FillAtRandom(*message, options.words, random);
  std::string bytes = message->SerializePartialAsString();
  if (!bytes.empty() && random.OneIn(4)) {
    bytes[random.Below(static_cast<uint32_t>(bytes.size()))] = static_cast<char>(random.Next());
  }
  if (random.OneIn(8)) bytes.resize(bytes.size() / 2);
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> CallAtRandom(const RandomCallsOptions& options) {
  Random random(options.seed);
  GenericCaller caller(options.address);
  const std::vector<const MethodDescriptor*> methods = Methods(options.without);
  std::map<std::string, uint32_t> counts;
  for (uint32_t i = 0; i < options.count; ++i) {
    const MethodDescriptor& method = *methods[i % methods.size()];
    std::vector<std::string> messages;
    bool is_parsable = true;
    const uint32_t message_count = method.client_streaming() ? random.Below(4) : 1;
    for (uint32_t j = 0; j < message_count; ++j) {
      messages.push_back(RandomRequest(method, options, random));
      is_parsable = is_parsable && New(method)->ParseFromString(messages.back());
    }
    const std::string path = absl::StrCat("/", method.service()->full_name(), "/", method.name());
    const absl::Status status = caller.Call(path, messages, kDeadline);
    ++counts[absl::StatusCodeToString(status.code())];
    // gRPC answers what is no message, what is too late, and what nobody serves.
    const bool is_of_grpc =
        !is_parsable || absl::IsDeadlineExceeded(status) || absl::IsUnimplemented(status);
    const bool lacks_detail = !status.ok() && !is_of_grpc && !HasDetail(status);
    if (absl::IsUnavailable(status) || (status.ok() && !is_parsable) || lacks_detail) {
      return absl::InternalError(absl::StrCat("call ", i, ", ", path, ": ", status.ToString()));
    }
  }
  return absl::StrJoin(counts, " ", absl::PairFormatter("="));
}

}  // namespace kvpool::test
