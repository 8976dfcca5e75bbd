#pragma once
#include <ATen/ATen.h>

#include "tests/scratch.h"
#include "tests/skeleton_model.h"
#include "train/objectives/objective_kind.h"

// What tests of objectives by their formulas compute with.
namespace burnish::test {

/// A small model whose times are sigmas.
inline models::Model& flow_model() {
  static Scratch scratch;
  static const auto model = [] {
    save_skeleton(scratch / "model.safetensors");
    return open_skeleton(scratch / "model.safetensors");
  }();
  return *model;
}

inline at::Tensor random(at::IntArrayRef shape, uint64_t seed) {
  return at::empty(shape, at::kFloat).normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed));
}

/// The options of objectives with these among them.
inline models::OptionValues with(std::initializer_list<std::pair<const std::string, models::OptionValue>> values) {
  auto own = train::default_objective_options();
  for (const auto& [name, value] : values) own.set(name, value);
  return own;
}

}  // namespace burnish::test
