#include "tests/bench/heap.h"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace {

size_t heap_bytes = 0;

void* CountedNew(size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  heap_bytes += malloc_usable_size(memory);
  return memory;
}

void CountedDelete(void* memory) {
  if (memory == nullptr) return;
  heap_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return CountedNew(size); }
void* operator new[](size_t size) { return CountedNew(size); }
void operator delete(void* memory) noexcept { CountedDelete(memory); }
void operator delete[](void* memory) noexcept { CountedDelete(memory); }
void operator delete(void* memory, size_t) noexcept { CountedDelete(memory); }
void operator delete[](void* memory, size_t) noexcept { CountedDelete(memory); }

namespace kvpool {

size_t HeapBytes() { return heap_bytes; }

}  // namespace kvpool
