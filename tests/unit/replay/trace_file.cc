#include "tests/unit/replay/trace_file.h"

#include <lzma.h>

#include <fstream>

#include "core/check.h"

namespace kvpool::test {

std::string WriteFile(const std::string& path, absl::string_view content) {
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  KVPOOL_CHECK(file.good());
  return path;
}

std::string CompressXz(absl::string_view content) {
  std::string compressed(lzma_stream_buffer_bound(content.size()), '\0');
  size_t size = 0;
  KVPOOL_CHECK(lzma_easy_buffer_encode(/*preset=*/0, LZMA_CHECK_CRC64, nullptr,
                                       reinterpret_cast<const uint8_t*>(content.data()),
                                       content.size(),
                                       reinterpret_cast<uint8_t*>(compressed.data()), &size,
                                       compressed.size()) == LZMA_OK);
  compressed.resize(size);
  return compressed;
}

}  // namespace kvpool::test
