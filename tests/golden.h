#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "io/checkpoint_files.h"

// Shared by the parity tests: golden files and relative errors.
namespace burnish::test {

inline std::string golden_path(const std::string& name) { return std::string(BURNISH_SOURCE_DIR) + "/tests/golden/" + name; }
inline io::TensorSource golden(const std::string& name) { return io::TensorSource::open({golden_path(name)}); }

/// Largest difference over the largest expected value.
inline double relative_error(const at::Tensor& found, const at::Tensor& expected) {
  auto a = found.detach().to(at::kDouble), b = expected.to(at::kDouble);
  if (a.sizes() != b.sizes()) return 1e30;
  return ((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item<double>();
}

}  // namespace burnish::test
