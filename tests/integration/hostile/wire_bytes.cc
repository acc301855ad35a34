#include "tests/integration/hostile/wire_bytes.h"

#include <array>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"
#include "tests/integration/hostile/http2_frames.h"
#include "tests/integration/hostile/raw_socket.h"
#include "tests/integration/hostile/recorded_exchange.h"

namespace kvpool::test {
namespace {

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
      return RefusedCall(stream);
    default: {
      // Types up to CONTINUATION (9), and some that nobody knows.
      const auto type = static_cast<uint8_t>(random.Below(12));
      const std::string bytes = RandomBytes(random, random.Below(64));
      return random.OneIn(4) ? Frame(type, flags, stream, bytes, random.Next())
                             : Frame(type, flags, stream, bytes);
    }
  }
}

// `bytes` with a few places changed: other bytes there, some left out, some twice.
std::string Changed(std::string bytes, Random& random) {
  for (uint32_t changes = 1 + random.Below(4); changes > 0 && !bytes.empty(); --changes) {
    const uint32_t place = random.Below(static_cast<uint32_t>(bytes.size()));
    const uint32_t length = 1 + random.Below(random.OneIn(3) ? 64 : 4);
    switch (random.Below(4)) {
      case 0:
        bytes[place] = static_cast<char>(bytes[place] ^ (1 << random.Below(8)));
        break;
      case 1:
        bytes.erase(place, length);
        break;
      case 2:
        bytes.insert(random.Below(static_cast<uint32_t>(bytes.size())),
                     bytes.substr(place, length));
        break;
      default:
        bytes.replace(place, length, RandomBytes(random, length));
        break;
    }
  }
  if (random.OneIn(4)) bytes.resize(random.Below(static_cast<uint32_t>(bytes.size()) + 1));
  return bytes;
}

absl::StatusOr<std::string> BadBytes(absl::string_view way, const std::string& recorded,
                                     Random& random) {
  if (way == "recorded") return Changed(recorded, random);
  if (way == "garbage") return RandomBytes(random, random.Below(4096));
  if (way == "frames") {
    std::string bytes = Preface();
    for (uint32_t frames = 1 + random.Below(20); frames > 0; --frames) bytes += RandomFrame(random);
    return bytes;
  }
  if (way == "truncated") {
    const std::string bytes = Preface() + RefusedCall(1) + RefusedCall(3);
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

absl::Status SendBadBytes(const std::string& address, absl::string_view way, uint64_t seed,
                          uint32_t count) {
  Random random(seed);
  std::string recorded;
  if (way == "recorded") {
    KVPOOL_ASSIGN_OR_RETURN(recorded, RecordExchange(address));
  }
  for (uint32_t i = 0; i < count; ++i) {
    KVPOOL_ASSIGN_OR_RETURN(const client::OwnedFd fd, ConnectTo(address, SOCK_STREAM));
    KVPOOL_ASSIGN_OR_RETURN(const std::string bytes, BadBytes(way, recorded, random));
    Send(fd.get(), bytes);
    if (random.OneIn(4)) shutdown(fd.get(), SHUT_WR);
    if (random.OneIn(2)) ReadOut(fd.get());
  }
  return absl::OkStatus();
}

}  // namespace kvpool::test
