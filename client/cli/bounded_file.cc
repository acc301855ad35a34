#include "client/cli/bounded_file.h"

#include <fstream>

#include "absl/strings/str_cat.h"

#include "client/cli/exit_code.h"
#include "client/cli/text.h"

namespace kvpool::cli {

absl::StatusOr<std::string> ReadBounded(std::istream& input, absl::string_view name,
                                        absl::string_view what, size_t max_bytes) {
  std::string content(max_bytes + 1, '\0');
  input.read(content.data(), static_cast<std::streamsize>(content.size()));
  // Reading to the end sets failbit beside eofbit; a directory sets badbit, a missing file none.
  if (!input.eof() || input.bad()) {
    if (input.good()) {
      return UsageError(
          absl::StrCat(what, " ", Printable(name), " is longer than ", max_bytes, " bytes"));
    }
    return UsageError(absl::StrCat("cannot read ", what, " ", Printable(name)));
  }
  content.resize(static_cast<size_t>(input.gcount()));
  return content;
}

absl::StatusOr<std::string> ReadBounded(const std::string& path, absl::string_view what,
                                        size_t max_bytes) {
  std::ifstream file(path, std::ios::binary);
  return ReadBounded(file, path, what, max_bytes);
}

}  // namespace kvpool::cli
