#include "tests/support/catch.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {

std::string OpenSession(Connection& connection) {
  return OpenWithModel(connection, /*model_id=*/"");
}

std::string OpenWithModel(Connection& connection, const std::string& model_id) {
  v1::OpenSessionRequest request;
  request.set_pool("main");
  request.set_client_name("test");
  request.set_model_id(model_id);
  v1::OpenSessionResponse response;
  const grpc::Status status =
      Call(*connection.blocks, &v1::BlockService::Stub::OpenSession, request, response);
  CAPTURE(status.error_message());
  REQUIRE(status.ok());
  return response.session_id();
}

v1::Blocks Alloc(Connection& connection, const std::string& session, uint32_t count) {
  v1::AllocRequest request;
  request.set_session_id(session);
  request.set_count(count);
  v1::AllocResponse response;
  const grpc::Status status =
      Call(*connection.blocks, &v1::BlockService::Stub::Alloc, request, response);
  CAPTURE(status.error_message());
  REQUIRE(status.ok());
  return response.blocks();
}

}  // namespace kvpool::test
