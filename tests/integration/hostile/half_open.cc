#include "tests/integration/hostile/half_open.h"

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"
#include "kvpool/v1/inspect.pb.h"
#include "tests/integration/hostile/http2_frames.h"
#include "tests/integration/hostile/raw_socket.h"

namespace kvpool::test {
namespace {

constexpr char kKeepAlivePath[] = "/kvpool.v1.BlockService/KeepAlive";
constexpr uint16_t kInitialWindowSize = 4;  // A setting.
constexpr uint16_t kMaxFrameSize = 5;
constexpr uint16_t kHeaderTableSize = 1;

// `make(stream)` for each of `count` streams of a client's, which are odd.
template <typename Make>
std::string OnStreams(uint32_t count, const Make& make) {
  std::string bytes;
  for (uint32_t i = 0; i < count; ++i) bytes += make(2 * i + 1);
  return bytes;
}

std::string Repeated(uint32_t count, const std::string& text) {
  std::string bytes;
  for (uint32_t i = 0; i < count; ++i) bytes += text;
  return bytes;
}

// A frame of each type, on streams that were opened, that were not, and on the connection itself.
std::vector<HalfOpenWay> FrameTypes() {
  std::vector<HalfOpenWay> ways;
  for (uint8_t type = 0; type <= kContinuation + 1; ++type) {
    for (const uint32_t stream : {0U, 1U, 2U, 0x7FFFFFFFU}) {
      const std::string open =
          stream == 1 ? Frame(kHeaders, kEndHeaders, 1, CallHeaders(kKeepAlivePath)) : "";
      ways.push_back({absl::StrCat("frame of type ", type, " on stream ", stream),
                      Preface() + open + Frame(type, 0, stream, std::string(8, '\0'))});
    }
  }
  return ways;
}

std::string Window() {
  v1::ListBlocksRequest request;
  request.set_pool("p");
  const std::string bytes = request.SerializeAsString();
  return PrefaceWith(kInitialWindowSize, 0) + OnStreams(200, [&bytes](uint32_t stream) {
           return Call(stream, "/kvpool.v1.InspectService/ListBlocks", bytes);
         });
}

std::vector<HalfOpenWay> AllWays() {
  const std::string headers = CallHeaders(kKeepAlivePath);
  const auto half_headers = [&headers](uint32_t stream) {
    return Frame(kHeaders, 0, stream, headers.substr(0, headers.size() / 2));
  };
  const std::string continuation = Frame(kContinuation, 0, 1, Field("x-filler", "y"));
  const std::string long_field = Field("x-filler", std::string(120, 'y'));
  std::vector<HalfOpenWay> ways{
      {"half a preface", HalfPreface()},
      {"a preface without SETTINGS", Preface().substr(0, 24)},
      {"SETTINGS that are never acknowledged", Preface() + OnStreams(50, RefusedCall)},
      {"another frame where SETTINGS should be", Preface().substr(0, 24) + RefusedCall(1)},
      {"HEADERS without END_HEADERS", Preface() + half_headers(1)},
      {"HEADERS in HEADERS", Preface() + half_headers(1) + half_headers(3)},
      {"a frame cut in its header", Preface() + RefusedCall(1).substr(0, 5)},
      {"a frame cut in its payload", Preface() + RefusedCall(1).substr(0, 40)},
      {"streams without DATA", Preface() + OnStreams(1'000,
                                                     [&headers](uint32_t stream) {
                                                       return Frame(kHeaders, kEndHeaders, stream,
                                                                    headers);
                                                     })},
      {"a message that does not end", Preface() + Frame(kHeaders, kEndHeaders, 1, headers) +
                                          Frame(kData, 0, 1, Message("half", 8 << 20))},
      {"CONTINUATION without end", Preface() + half_headers(1) + Repeated(5'000, continuation)},
      {"CONTINUATION of nothing",
       Preface() + half_headers(1) + Repeated(5'000, Frame(kContinuation, 0, 1, ""))},
      {"streams that are reset at once",
       Preface() + OnStreams(2'000,
                             [&headers](uint32_t stream) {
                               return Frame(kHeaders, kEndHeaders, stream, headers) +
                                      Frame(kRstStream, 0, stream, BigEndian(8, 4));
                             })},
      {"streams that are reset and were never open",
       Preface() + OnStreams(2'000,
                             [](uint32_t stream) {
                               return Frame(kRstStream, 0, stream, BigEndian(8, 4));
                             })},
      {"a list of headers that is too long",
       Preface() + Frame(kHeaders, kEndHeaders, 1, headers + Repeated(120, long_field))},
      {"a list of headers over many frames",
       Preface() + Frame(kHeaders, 0, 1, headers) +
           Repeated(40, Frame(kContinuation, 0, 1, Repeated(100, long_field))) +
           Frame(kContinuation, kEndHeaders, 1, long_field)},
      {"a window that is never opened", Window()},
      {"a window that overflows",
       Preface() + Repeated(3, Frame(kWindowUpdate, 0, 0, BigEndian(0x7FFFFFFF, 4)))},
      {"a window that is opened by nothing",
       Preface() + Repeated(1'000, Frame(kWindowUpdate, 0, 0, BigEndian(0, 4)))},
      {"PINGs that are not read", Preface() + Repeated(3'000, Frame(kPing, 0, 0, "12345678"))},
      {"SETTINGS again and again", Preface() + Repeated(3'000, Frame(kSettings, 0, 0, ""))},
      {"acknowledged SETTINGS that nobody sent",
       Preface() + Repeated(1'000, Frame(kSettings, kAck, 0, ""))},
      {"a largest frame of no size", PrefaceWith(kMaxFrameSize, 0) + RefusedCall(1)},
      {"a table of headers of every size",
       PrefaceWith(kHeaderTableSize, UINT32_MAX) + RefusedCall(1)},
      {"a promise of a client's",
       Preface() + Frame(kPushPromise, kEndHeaders, 1, BigEndian(2, 4) + headers)},
      {"GOAWAY and calls after it",
       Preface() + Frame(kGoAway, 0, 0, std::string(8, '\0')) + RefusedCall(1)},
      {"stream numbers that fall", Preface() + RefusedCall(9) + RefusedCall(3)},
      {"the last stream number, and one more",
       Preface() + RefusedCall(0x7FFFFFFF) + RefusedCall(1)},
  };
  for (HalfOpenWay& way : FrameTypes()) ways.push_back(std::move(way));
  return ways;
}

// What the daemon takes at once: it may have ended the connection, or read no more.
void SendWhatIsTaken(int fd, const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t size =
        send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size <= 0) return;
    sent += static_cast<size_t>(size);
  }
}

}  // namespace

const std::vector<HalfOpenWay>& HalfOpenWays() {
  static const auto& ways = *new std::vector<HalfOpenWay>(AllWays());
  return ways;
}

absl::StatusOr<std::vector<client::OwnedFd>> OpenHalf(const std::string& address, uint32_t count) {
  std::vector<client::OwnedFd> held;
  for (const HalfOpenWay& way : HalfOpenWays()) {
    for (uint32_t i = 0; i < count; ++i) {
      KVPOOL_ASSIGN_OR_RETURN(client::OwnedFd fd, ConnectTo(address, SOCK_STREAM));
      SendWhatIsTaken(fd.get(), way.bytes);
      held.push_back(std::move(fd));
    }
  }
  return held;
}

}  // namespace kvpool::test
