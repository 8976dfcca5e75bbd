#include "memory/heap.h"

#include <malloc.h>

namespace burnish::memory {

namespace {

constexpr int kLargestBlockKept = 32 << 20;  // bytes; mallopt allows no more
constexpr int kFreeAtTheEnd = 512 << 20;     // bytes of the heap

}  // namespace

void reuse_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, kLargestBlockKept);
  mallopt(M_TRIM_THRESHOLD, kFreeAtTheEnd);
}

void trim_heap() { malloc_trim(0); }

}  // namespace burnish::memory
