#include "tests/fuzz/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  burnish::fuzz::read_gguf({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
