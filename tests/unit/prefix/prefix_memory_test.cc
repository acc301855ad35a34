// What an entry of the prefix index costs, counted where memory comes from.

#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "core/ledger/prefix/prefix_index.h"
#include "tests/support/catch.h"
#include "tests/unit/prefix/prefix_test_keys.h"

namespace {

// Bytes of the heap in use, as malloc rounds them.
size_t heap_bytes = 0;

void* Counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  heap_bytes += malloc_usable_size(memory);
  return memory;
}

void Free(void* memory) {
  if (memory != nullptr) heap_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return Counted(std::malloc(size)); }
void* operator new[](size_t size) { return Counted(std::malloc(size)); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Counted(std::aligned_alloc(static_cast<size_t>(alignment), size));
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t) noexcept { Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { Free(memory); }

namespace kvpool {
namespace {

constexpr uint32_t kCount = 200'000;

double BytesOfEach(size_t before) {
  return static_cast<double>(heap_bytes - before) / static_cast<double>(kCount);
}

TEST_CASE("An index costs nothing before anything is published") {
  const size_t before = heap_bytes;
  const PrefixIndex index;
  CHECK(heap_bytes == before);
}

TEST_CASE("A published block costs 80 bytes of index at most") {
  const size_t before = heap_bytes;
  PrefixIndex index;
  const SpaceNames space = {.root = test::KeyOf(kCount), .tenant = TenantSlot{0}};
  EntrySlot parent = kNoEntry;
  for (uint32_t i = 0; i < kCount; ++i) {
    const PrefixKey key = test::KeyOf(i);
    parent = (i % 100 == 0 ? index.InsertFirst(key, BlockId{i}, space)
                           : index.Insert(key, BlockId{i}, parent))
                 .entry;
  }
  const double bytes = BytesOfEach(before);
  CAPTURE(bytes);
  CHECK(bytes <= 80);
}

TEST_CASE("A published block costs 150 bytes of index at most where each has a space of its own") {
  const size_t before = heap_bytes;
  PrefixIndex index;
  for (uint32_t i = 0; i < kCount; ++i) {
    const SpaceNames space = {
        .root = test::KeyOf(kCount + i), .tenant = TenantSlot{0}, .model_id = "model"};
    index.InsertFirst(test::KeyOf(i), BlockId{i}, space);
  }
  const double bytes = BytesOfEach(before);
  CAPTURE(bytes);
  CHECK(bytes <= 150);
}

TEST_CASE("What comes and goes costs no more than the most there was at a time") {
  PrefixIndex index;
  const SpaceNames space = {.root = test::KeyOf(kCount), .tenant = TenantSlot{0}};
  size_t after_first = 0;
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint32_t block = i % 1'000;
    const EntrySlot slot = index.InsertFirst(test::KeyOf(i), BlockId{block}, space).entry;
    if (i % 5'000 == 4'999) index.ResetAll();
    if (index.is_old(slot)) {
      while (index.TakeOld() != kNoEntry) continue;
    } else {
      index.Remove(slot);
    }
    index.Forget(BlockId{block});
    if (i == 10'000) after_first = heap_bytes;
  }
  CHECK(heap_bytes == after_first);
}

}  // namespace
}  // namespace kvpool
