#include "tests/integration/hostile/wire_bytes.h"

#include <array>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"
#include "kvpool/v1/block.pb.h"
#include "tests/integration/hostile/raw_socket.h"

namespace kvpool::test {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr uint8_t kData = 0;
constexpr uint8_t kHeaders = 1;
constexpr uint8_t kSettings = 4;
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kEndHeaders = 4;

std::string BigEndian(uint64_t number, int size) {
  std::string bytes;
  for (int i = size - 1; i >= 0; --i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

// A frame (RFC 9113, 4.1) that says it has `length` bytes of payload.
std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload,
                  uint64_t length) {
  return BigEndian(length, 3) + static_cast<char>(type) + static_cast<char>(flags) +
         BigEndian(stream, 4) + payload;
}

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  return Frame(type, flags, stream, payload, payload.size());
}

// A literal header field, not indexed, not Huffman coded (RFC 7541, 6.2.2).
std::string Field(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

std::string CallHeaders(const std::string& path) {
  return Field(":method", "POST") + Field(":scheme", "http") + Field(":path", path) +
         Field(":authority", "localhost") + Field("te", "trailers") +
         Field("content-type", "application/grpc");
}

// A gRPC message that says it has `length` bytes.
std::string Message(const std::string& bytes, uint64_t length) {
  return std::string(1, '\0') + BigEndian(length, 4) + bytes;
}

std::string Call(uint32_t stream) {
  v1::OpenSessionRequest request;
  request.set_pool("nowhere");
  const std::string bytes = request.SerializeAsString();
  return Frame(kHeaders, kEndHeaders, stream, CallHeaders("/kvpool.v1.BlockService/OpenSession")) +
         Frame(kData, kEndStream, stream, Message(bytes, bytes.size()));
}

uint32_t RandomStream(Random& random) {
  constexpr std::array<uint32_t, 7> kStreams{0, 1, 3, 2, 5, 0x7FFFFFFF, 0xFFFFFFFF};
  return kStreams[random.Below(kStreams.size())];
}

std::string RandomPath(Random& random) {
  constexpr std::array<const char*, 6> kPaths{"/kvpool.v1.BlockService/KeepAlive",
                                              "/kvpool.v1.BlockService/WriteBlocks",
                                              "/kvpool.v1.InspectService/ListBlocks",
                                              "/kvpool.v1.AdminService/CreatePool",
                                              "/no.such/\nMethod",
                                              ""};
  return kPaths[random.Below(kPaths.size())];
}

std::string RandomFrame(Random& random) {
  const uint32_t stream = RandomStream(random);
  const auto flags = static_cast<uint8_t>(random.Next());
  switch (random.Below(6)) {
    case 0:
      return Frame(kHeaders, kEndHeaders, stream, CallHeaders(RandomPath(random)));
    case 1:
      return Frame(kHeaders, flags, stream, RandomBytes(random, random.Below(200)));
    case 2: {
      const std::string bytes = RandomBytes(random, random.Below(100));
      return Frame(kData, flags & kEndStream, stream, Message(bytes, random.Next()));
    }
    case 3:
      return Call(stream);
    default: {
      // Types up to CONTINUATION (9), and some that nobody knows.
      const auto type = static_cast<uint8_t>(random.Below(12));
      const std::string bytes = RandomBytes(random, random.Below(64));
      return random.OneIn(4) ? Frame(type, flags, stream, bytes, random.Next())
                             : Frame(type, flags, stream, bytes);
    }
  }
}

absl::StatusOr<std::string> BadBytes(absl::string_view way, Random& random) {
  if (way == "garbage") return RandomBytes(random, random.Below(4096));
  if (way == "frames") {
    std::string bytes = Preface();
    for (uint32_t frames = 1 + random.Below(20); frames > 0; --frames) bytes += RandomFrame(random);
    return bytes;
  }
  if (way == "truncated") {
    const std::string bytes = Preface() + Call(1) + Call(3);
    return bytes.substr(0, random.Below(static_cast<uint32_t>(bytes.size())));
  }
  return absl::InvalidArgumentError(absl::StrCat("no such way: ", way));
}

// Reads what comes until the end, or until nothing does for a moment.
void ReadOut(int fd) {
  const timeval moment{.tv_sec = 0, .tv_usec = 20'000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment));
  std::array<char, 4096> bytes{};
  for (int i = 0; i < 100 && recv(fd, bytes.data(), bytes.size(), 0) > 0; ++i) continue;
}

}  // namespace

std::string RandomBytes(Random& random, uint32_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Next());
  return bytes;
}

std::string HalfPreface() { return std::string(kPreface).substr(0, 10); }

std::string Preface() { return kPreface + Frame(kSettings, 0, 0, ""); }

absl::Status SendBadBytes(const std::string& address, absl::string_view way, uint64_t seed,
                          uint32_t count) {
  Random random(seed);
  for (uint32_t i = 0; i < count; ++i) {
    KVPOOL_ASSIGN_OR_RETURN(const client::OwnedFd fd, ConnectTo(address, SOCK_STREAM));
    KVPOOL_ASSIGN_OR_RETURN(const std::string bytes, BadBytes(way, random));
    Send(fd.get(), bytes);
    if (random.OneIn(4)) shutdown(fd.get(), SHUT_WR);
    if (random.OneIn(2)) ReadOut(fd.get());
  }
  return absl::OkStatus();
}

}  // namespace kvpool::test
