#pragma once

#include <cstdint>
#include <string>

namespace kvpool::test {

// HTTP/2 as bytes (RFC 9113), right and wrong.

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kRstStream = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};

inline constexpr uint8_t kEndStream = 1;   // Of DATA and HEADERS.
inline constexpr uint8_t kAck = 1;         // Of SETTINGS and PING.
inline constexpr uint8_t kEndHeaders = 4;  // Of HEADERS and CONTINUATION.

// `number` as `size` bytes.
std::string BigEndian(uint64_t number, int size);

// A frame that says it has `length` bytes of payload, or as many as it has.
std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload,
                  uint64_t length);
std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload);

// Half of a connection preface, and the whole with an empty SETTINGS frame.
std::string HalfPreface();
std::string Preface();
// The whole, with one setting.
std::string PrefaceWith(uint16_t setting, uint32_t value);

// A literal header field, not indexed, not Huffman coded (RFC 7541, 6.2.2). Requires that name and
// value have at most 126 bytes each.
std::string Field(const std::string& name, const std::string& value);

// The header fields of a gRPC call of the method at `path`.
std::string CallHeaders(const std::string& path);

// A gRPC message that says it has `length` bytes.
std::string Message(const std::string& bytes, uint64_t length);

// A whole call of the method at `path`, with `request`, on stream `stream`.
std::string Call(uint32_t stream, const std::string& path, const std::string& request);
// One that is refused: of OpenSession, in a pool that is not there.
std::string RefusedCall(uint32_t stream);

}  // namespace kvpool::test
