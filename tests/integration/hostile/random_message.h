#pragma once

#include <string>
#include <vector>

#include <google/protobuf/message.h>

#include "tests/support/random.h"

namespace kvpool::test {

// Sets random fields of `message` to random values: numbers mostly at their edges, texts mostly of
// `words`, some of them long, empty, or no text at all.
void FillAtRandom(google::protobuf::Message& message, const std::vector<std::string>& words,
                  Random& random);

}  // namespace kvpool::test
