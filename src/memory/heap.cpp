#include "memory/heap.h"

#include <malloc.h>

namespace burnish::memory {

void trim_heap() { malloc_trim(0); }

}  // namespace burnish::memory
