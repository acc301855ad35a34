// What callers name, in the log.
#include <string>

#include "tests/integration/hostile/scene.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

TEST_CASE("What callers name makes no line of its own in the log") {
  Scene scene;
  RawClient& eyes = scene.node().eyes();
  const std::string forged = "x\n2026-01-01T00:00:00.000Z level=critical event=forged\r\x1b[2J";
  CHECK(
      Said(eyes.CreatePool(R"({"name": "x\n2026-01-01T00:00:00.000Z level=info event=forged"})")) ==
      "INVALID_ARGUMENT");
  CHECK_FALSE(eyes.DeletePool(forged).ok());
  CHECK_FALSE(eyes.TerminateSession(forged, false).ok());
  CHECK_FALSE(eyes.GetSession(forged).ok());
  v1::ChecksumLayersRequest request;
  request.set_pool("p");
  request.add_block_ids(0);
  request.set_tag(forged.substr(0, 60));
  CHECK(Said(eyes.ChecksumLayers(request)) == "OK");
  v1::OpenSessionRequest open;
  open.set_model_id(forged);
  const auto session = RawSession::Open(eyes, open);
  if (session.ok()) CHECK((*session)->Close().ok());
  // The last of them is in the log, and so are those before it.
  CHECK(Eventually([&] {
    return scene.node().daemon().Log().find("event=layer_checksum") != std::string::npos;
  }));
  scene.CheckLast();
}

}  // namespace
}  // namespace kvpool::test
