#include "tests/integration/hostile/http2_frames.h"

#include "kvpool/v1/block.pb.h"

namespace kvpool::test {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

}  // namespace

std::string BigEndian(uint64_t number, int size) {
  std::string bytes;
  for (int i = size - 1; i >= 0; --i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload,
                  uint64_t length) {
  return BigEndian(length, 3) + static_cast<char>(type) + static_cast<char>(flags) +
         BigEndian(stream, 4) + payload;
}

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  return Frame(type, flags, stream, payload, payload.size());
}

std::string HalfPreface() { return std::string(kPreface).substr(0, 10); }

std::string Preface() { return kPreface + Frame(kSettings, 0, 0, ""); }

std::string PrefaceWith(uint16_t setting, uint32_t value) {
  return kPreface + Frame(kSettings, 0, 0, BigEndian(setting, 2) + BigEndian(value, 4));
}

std::string Field(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

std::string CallHeaders(const std::string& path) {
  return Field(":method", "POST") + Field(":scheme", "http") + Field(":path", path) +
         Field(":authority", "localhost") + Field("te", "trailers") +
         Field("content-type", "application/grpc");
}

std::string Message(const std::string& bytes, uint64_t length) {
  return std::string(1, '\0') + BigEndian(length, 4) + bytes;
}

std::string Call(uint32_t stream, const std::string& path, const std::string& request) {
  return Frame(kHeaders, kEndHeaders, stream, CallHeaders(path)) +
         Frame(kData, kEndStream, stream, Message(request, request.size()));
}

std::string RefusedCall(uint32_t stream) {
  v1::OpenSessionRequest request;
  request.set_pool("nowhere");
  return Call(stream, "/kvpool.v1.BlockService/OpenSession", request.SerializeAsString());
}

}  // namespace kvpool::test
