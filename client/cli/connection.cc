#include "client/cli/connection.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include "client/cli/exit_code.h"
#include "client/socket_probe.h"
#include "client/status_from_grpc.h"
#include "core/status_macros.h"

namespace kvpool::cli {
namespace {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& socket) {
  grpc::ChannelArguments arguments;
  // The daemon is trusted to answer with what fits it; listings may be long.
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(socket, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

Connection::Connection(std::string socket, absl::Duration timeout)
    : socket_(std::move(socket)),
      timeout_(timeout),
      channel_(MakeChannel(socket_)),
      blocks_(v1::BlockService::NewStub(channel_)),
      inspect_(v1::InspectService::NewStub(channel_)),
      admin_(v1::AdminService::NewStub(channel_)),
      health_(grpc::health::v1::Health::NewStub(channel_)) {}

absl::Status Connection::Run(const std::function<grpc::Status(grpc::ClientContext&)>& call) {
  grpc::ClientContext context;
  const auto timeout = absl::ToChronoNanoseconds(timeout_);
  if (timeout_ < absl::InfiniteDuration()) {
    context.set_deadline(std::chrono::system_clock::now() + timeout);
  }
  KVPOOL_RETURN_IF_ERROR(client::WaitForDaemon(*channel_, socket_, timeout));
  absl::Status status = client::StatusFromGrpc(call(context));
  if (ExitCodeFor(status) != ExitCode::kUnreachable) return status;
  return absl::Status(status.code(),
                      absl::StrCat("no daemon answers at ", socket_, ": ", status.message()));
}

}  // namespace kvpool::cli
