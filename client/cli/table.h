#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kvpool::cli {

// A table for people: columns as wide as their widest cell, two spaces between them, no trailing
// spaces. Cells are made printable (text.h), so that a name cannot break the terminal. A column
// whose title starts with '>' is aligned to the right, as numbers are.
//
// Not thread-safe.
class Table {
 public:
  // Without titles there is no head line: columns are then as wide as a row, and to the left.
  explicit Table(std::vector<std::string> titles = {});

  // Requires as many cells as there are titles, if there are any.
  void AddRow(std::vector<std::string> cells);

  // Every line, each with its newline. Only titles where there are no rows.
  std::string ToString() const;

 private:
  std::vector<bool> is_right_;
  std::vector<std::vector<std::string>> rows_;  // The first is the titles, if there are any.
};

}  // namespace kvpool::cli
