#pragma once

#include <string>
#include <vector>

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

namespace kvpool::test {

// Starts a call of a generic stub, sends `messages` and then their end, as far as the stream takes
// them. `step` waits for the end of one step; false where the stream has ended.
template <typename Stream, typename Step>
void SendAll(Stream& stream, const std::vector<std::string>& messages, const Step& step) {
  stream.StartCall(nullptr);
  bool is_open = step();
  for (const std::string& message : messages) {
    if (!is_open) break;
    const grpc::Slice slice(message);
    stream.Write(grpc::ByteBuffer(&slice, 1), nullptr);
    is_open = step();
  }
  if (is_open) {
    stream.WritesDone(nullptr);
    step();
  }
}

}  // namespace kvpool::test
