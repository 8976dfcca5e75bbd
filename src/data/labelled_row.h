#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace burnish::data {

/// Lays pictures of one size, uint8 [H, W, 3], side by side, each below its label on a white band: [h, n W, 3]. Of a label digits, signs,
/// points and "e" are drawn, as a number has them, and other letters left blank. std::logic_error for pictures of several sizes.
at::Tensor labelled_row(const std::vector<at::Tensor>& pictures_HW3, const std::vector<std::string>& labels);

}  // namespace burnish::data
