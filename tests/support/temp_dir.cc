#include "tests/support/temp_dir.h"

#include <stdlib.h>

#include <system_error>

#include "core/check.h"

namespace kvpool::test {

TempDir::TempDir() {
  std::string name = "/tmp/kvpool.XXXXXX";
  KVPOOL_CHECK(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace kvpool::test
