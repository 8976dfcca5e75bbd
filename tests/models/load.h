#pragma once
#include "io/key_map.h"
#include "nn/module.h"

namespace burnish::test {

/// Fills a module that was built on the meta device with the tensors of a file, in fp32.
inline void load(nn::Module& module, const io::TensorSource& source, const io::KeyMap& keys = {}) {
  auto slots = module.parameters();
  io::Shapes wanted;
  for (auto& [path, slot] : slots) wanted[path] = slot->sizes().vec();
  io::load_named(
      source, keys, wanted, [&](const std::string& path, const at::Tensor& t) { *slots.at(path) = t.to(at::kFloat, false, true); },
      "model");
}

}  // namespace burnish::test
