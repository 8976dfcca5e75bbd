#include "train/step/own_drawings.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <stdexcept>

namespace burnish::train {

int64_t OwnDrawings::number(const std::string& name) const {
  const auto kept = std::ranges::find(drawn, name, &optim::StateList::value_type::first);
  return kept == drawn.end() ? -1 : kept->second.item<int64_t>();
}

const at::Tensor& OwnDrawings::tensor(const std::string& name) const {
  const auto kept = std::ranges::find(drawn, name, &optim::StateList::value_type::first);
  if (kept == drawn.end()) throw std::logic_error("nothing was drawn that is called " + name);
  return kept->second;
}

void OwnDrawings::keep(const std::string& name, const at::Tensor& value) {
  std::erase_if(drawn, [&](const auto& kept) { return kept.first == name; });
  drawn.emplace_back(name, value);
}

void OwnDrawings::keep(const std::string& name, int64_t number) { keep(name, at::scalar_tensor(number, at::kLong)); }

}  // namespace burnish::train
