#include "adapters/change.h"

#include <algorithm>
#include <stdexcept>

namespace burnish::adapters {

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::lora: return "lora";
    case Kind::loha: return "loha";
    case Kind::lokr: return "lokr";
    case Kind::full: return "full";
    case Kind::oft: return "oft";
    case Kind::boft: return "boft";
    case Kind::ia3: return "ia3";
    case Kind::glora: return "glora";
    case Kind::tlora: return "tlora";
  }
  throw std::logic_error("an adapter of no kind");
}

bool has_rows_of_change(std::string_view name) {
  constexpr std::string_view kNames[] = {"lora_B.weight", "hada_w1_a", "hada_w2_a", "diff",   "oft_blocks",
                                         "b1.weight",     "g1.weight", "row_gain",  "rescale"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool Change::has(std::string_view name) const {
  return std::any_of(parameters_.begin(), parameters_.end(), [&](const auto& p) { return p.first == name; });
}

at::Tensor Change::own_rows(const at::Tensor& parameter) const {
  return fused_rows_.count > 0 ? parameter.narrow(0, fused_rows_.begin, fused_rows_.count) : parameter;
}

const at::Tensor& Change::parameter(std::string_view name) const {
  for (const auto& [known, tensor] : parameters_) {
    if (known == name) return tensor;
  }
  throw std::logic_error("a change without its " + std::string(name));
}

}  // namespace burnish::adapters
