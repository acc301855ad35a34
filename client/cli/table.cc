#include "client/cli/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "client/cli/text.h"
#include "core/check.h"

namespace kvpool::cli {

Table::Table(std::vector<std::string> titles) {
  for (std::string& title : titles) {
    absl::string_view text = title;
    is_right_.push_back(absl::ConsumePrefix(&text, ">"));
    title = std::string(text);
  }
  if (!titles.empty()) rows_.push_back(std::move(titles));
}

void Table::AddRow(std::vector<std::string> cells) {
  KVPOOL_CHECK(is_right_.empty() || cells.size() == is_right_.size());
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::ToString() const {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      const bool is_right = i < is_right_.size() && is_right_[i];
      absl::StrAppend(&line, i == 0 ? "" : "  ", is_right ? padding : "", row[i],
                      is_right ? "" : padding);
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

}  // namespace kvpool::cli
