#pragma once

#include <cstddef>
#include <cstdint>

#include <google/protobuf/message.h>

namespace kvpool::test {

// libFuzzer's custom mutator for inputs that are messages: changes one thing in a message, however
// deep (a field set at random or cleared, an entry added, doubled, moved or removed, a text or a
// number changed as libFuzzer changes bytes), and so keeps it a message.
//
// `message`, an empty one of its type, is overwritten. The arguments and the result are those of
// LLVMFuzzerCustomMutator: the new size of `data`, at most `max_size`.
size_t MutateMessage(google::protobuf::Message& message, uint8_t* data, size_t size,
                     size_t max_size, unsigned int seed);

// As LLVMFuzzerCustomCrossOver: what `first` and `second` both say.
size_t CrossMessages(google::protobuf::Message& message, const uint8_t* first, size_t first_size,
                     const uint8_t* second, size_t second_size, uint8_t* out, size_t max_size);

}  // namespace kvpool::test
