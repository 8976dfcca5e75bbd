#include "memory/page.h"

#include <ATen/ops/empty.h>

namespace burnish::memory {

int64_t aligned(int64_t num_bytes) {
  constexpr int64_t kAlignment = 256;
  return (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

at::Tensor bytes_of(const c10::Storage& storage, const at::TensorOptions& options) {
  return at::empty({0}, options.dtype(at::kByte)).set_(storage, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
}

HostStore::Copies Page::copies(bool in_file) const {
  HostStore::Copies copies;
  for (const auto& weight : weights) {
    if (weight.in_file != in_file || !weight.waiting.defined()) continue;
    copies.emplace_back(place->bytes.narrow(0, weight.offset, weight.waiting.numel()), weight.waiting);
  }
  return copies;
}

}  // namespace burnish::memory
