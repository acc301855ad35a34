#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the function with the status of `expression` unless it is OK.
#define KVPOOL_RETURN_IF_ERROR(expression)                                  \
  do {                                                                      \
    if (absl::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

#define KVPOOL_CONCAT_INNER(a, b) a##b
#define KVPOOL_CONCAT(a, b) KVPOOL_CONCAT_INNER(a, b)

// NOLINTBEGIN(bugprone-macro-parentheses): a target may be a declaration, which takes none.
// Assigns the value of `expression`, a StatusOr, to `target`; returns its status where it has
// none.
#define KVPOOL_ASSIGN_OR_RETURN(target, expression) \
  KVPOOL_ASSIGN_OR_RETURN_INNER(KVPOOL_CONCAT(status_or_, __LINE__), target, expression)
#define KVPOOL_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                     \
  if (!result.ok()) return std::move(result).status();            \
  target = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)
