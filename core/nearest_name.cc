#include "core/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kvpool {
namespace {

// Longer than any name that is looked for: what is longer is no slip of it.
constexpr size_t kMaxLength = 64;

// Wagner and Fischer's table, a row at a time, and the row before the last for swaps.
size_t Distance(absl::string_view from, absl::string_view to) {
  std::vector<size_t> before(to.size() + 1);
  std::vector<size_t> last(to.size() + 1);
  std::vector<size_t> row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t replaced = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row.back();
}

}  // namespace

absl::string_view NearestName(absl::string_view text, std::span<const absl::string_view> names) {
  absl::string_view nearest;
  if (text.size() > kMaxLength) return nearest;
  size_t least = text.size() / 3 + 1;
  for (const absl::string_view name : names) {
    const size_t distance = Distance(text, name);
    if (distance >= least) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

}  // namespace kvpool
