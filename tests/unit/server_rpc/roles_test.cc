#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>

#include "tests/support/catch.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {
namespace {

// Calls any method with an empty message and tells how that ended.
grpc::Status CallEmpty(Connection& connection, const google::protobuf::MethodDescriptor& method) {
  grpc::GenericStub stub(connection.channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const std::string path = "/" + std::string(method.service()->full_name()) + "/" + method.name();
  const auto call = stub.PrepareCall(&context, path, &queue);
  call->StartCall(nullptr);
  void* tag = nullptr;
  bool ok = false;
  REQUIRE(queue.Next(&tag, &ok));
  grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  call->WriteLast(request, grpc::WriteOptions(), nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return status;
}

const std::vector<std::string> kContent = {"ChecksumLayers", "ChecksumBlocks"};

bool IsIn(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool MayCall(v1::Role role, const std::string& service, const std::string& method) {
  if (role == v1::ROLE_OPERATOR) return true;
  if (service == "BlockService") return role == v1::ROLE_WORKER;
  if (service == "AdminService") return false;
  return !IsIn(kContent, method);
}

std::vector<const google::protobuf::MethodDescriptor*> Methods() {
  std::vector<const google::protobuf::MethodDescriptor*> methods;
  for (const auto* file :
       {v1::AllocRequest::descriptor()->file(), v1::GetPoolRequest::descriptor()->file(),
        v1::CreatePoolRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.push_back(file->service(s)->method(m));
      }
    }
  }
  CHECK(methods.size() == 31);
  return methods;
}

TEST_CASE("Every method of every service is refused to every role that may not call it") {
  TestServer server;
  for (const v1::Role role : {v1::ROLE_WORKER, v1::ROLE_INSPECTOR, v1::ROLE_OPERATOR}) {
    Connection connection = server.Connect(role);
    for (const auto* method : Methods()) {
      CAPTURE(method->full_name(), v1::Role_Name(role));
      const grpc::StatusCode code = CallEmpty(connection, *method).error_code();
      if (MayCall(role, method->service()->name(), method->name())) {
        CHECK(code != grpc::StatusCode::PERMISSION_DENIED);
        CHECK(code != grpc::StatusCode::UNIMPLEMENTED);
      } else {
        CHECK(code == grpc::StatusCode::PERMISSION_DENIED);
      }
    }
  }
}

TEST_CASE("Every error of every method says why in words and in one ErrorDetail") {
  TestServer server;
  std::map<std::string, int> error_counts;  // By method.
  for (const v1::Role role :
       {v1::ROLE_UNSPECIFIED, v1::ROLE_WORKER, v1::ROLE_INSPECTOR, v1::ROLE_OPERATOR}) {
    for (const bool is_draining : {false, true}) {
      server.draining() = is_draining;
      Connection connection = server.Connect(role);
      for (const auto* method : Methods()) {
        CAPTURE(method->full_name(), v1::Role_Name(role), is_draining);
        const grpc::Status status = CallEmpty(connection, *method);
        if (status.ok()) continue;
        ++error_counts[method->full_name()];
        CHECK_FALSE(status.error_message().empty());
        CHECK_NOTHROW(DetailOf(status));
      }
    }
  }
  CHECK(error_counts.size() == Methods().size());
}

TEST_CASE("A connection that the daemon has not accepted may call nothing") {
  TestServer server;
  Connection unknown = server.ConnectUnknown();
  v1::GetDaemonResponse response;
  const grpc::Status status = Call(*unknown.inspect, &v1::InspectService::Stub::GetDaemon,
                                   v1::GetDaemonRequest(), response);
  CHECK(CodeOf(status) == "PERMISSION_DENIED");
}

TEST_CASE("A role that is not set may call nothing") {
  TestServer server;
  Connection nobody = server.Connect(v1::ROLE_UNSPECIFIED);
  CHECK(CodeOf(Call(*nobody.inspect, &v1::InspectService::Stub::GetDaemon,
                    v1::GetDaemonRequest())) == "PERMISSION_DENIED");
}

}  // namespace
}  // namespace kvpool::test
