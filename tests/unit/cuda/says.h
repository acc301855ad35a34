#pragma once

#include <initializer_list>
#include <string>

#include "absl/status/status.h"

#include "core/error.h"
#include "tests/support/catch.h"

namespace kvpool::cuda {

// Checks the code, the reason and some words of the message of an error.
inline void CheckRefused(const absl::Status& status, absl::StatusCode code, Reason reason,
                         std::initializer_list<const char*> words) {
  const std::string message(status.message());
  CAPTURE(message);
  CHECK(status.code() == code);
  CHECK(GetErrorDetail(status).reason == reason);
  for (const char* word : words) {
    CAPTURE(word);
    CHECK(message.find(word) != std::string::npos);
  }
}

}  // namespace kvpool::cuda
