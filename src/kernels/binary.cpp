#include "kernels/binary.h"

#include <algorithm>

namespace burnish::kernels {

namespace {

bool runs_on(const Binary& binary, int capability) {
  if (binary.capability == capability) return true;
  return binary.capability < 90 && binary.capability / 10 == capability / 10 && binary.capability < capability;
}

}  // namespace

const Binary* choose(std::span<const Binary> list, std::string_view name, int capability) {
  const Binary* best = nullptr;
  for (const auto& binary : list) {
    if (binary.name != name || !runs_on(binary, capability)) continue;
    if (best == nullptr || best->capability < binary.capability) best = &binary;
  }
  return best;
}

bool runs_any(std::span<const Binary> list, int capability) {
  return std::ranges::any_of(list, [&](const Binary& binary) { return runs_on(binary, capability); });
}

}  // namespace burnish::kernels
