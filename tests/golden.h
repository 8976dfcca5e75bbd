#pragma once
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <string>

#include "io/checkpoint_files.h"
#include "io/key_map.h"
#include "nn/module.h"
#include "tests/device.h"
#include "tests/places.h"
#include "tests/relative_error.h"

// Shared by the parity tests: golden files and relative errors.
namespace burnish::test {

inline std::string golden_path(const std::string& name) { return std::string(test::kCheckout) + "/tests/golden/" + name; }
inline io::TensorSource golden(const std::string& name) { return io::TensorSource::open({golden_path(name)}); }

/// What tests/golden/digest.py keeps of a tensor: its norm and its products with eight cosine waves over its places, fp64 [9].
inline at::Tensor digest(const at::Tensor& tensor) {
  auto flat = tensor.detach().cpu().to(at::kDouble).flatten();
  auto places = at::arange(flat.numel(), at::kDouble), frequencies = 0.7390851 * at::arange(1, 9, at::kDouble);
  return at::cat({flat.norm().unsqueeze(0), at::cos(frequencies.unsqueeze(1) * places).mv(flat)});
}

/// Fills every parameter of `model`, on the device of tests, from `source`, which must hold exactly these.
inline void load_weights(nn::Module& model, const io::TensorSource& source, const io::KeyMap& keys) {
  auto slots = model.parameters();
  io::Shapes wanted;
  for (auto& [path, slot] : slots) wanted[path] = slot->sizes().vec();
  io::load_named(
      source, keys, wanted, [&](const std::string& path, const io::InFile& read) { *slots.at(path) = on_device(read.numbers).clone(); },
      "golden file");
}

}  // namespace burnish::test
