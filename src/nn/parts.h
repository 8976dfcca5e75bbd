#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace burnish::nn {

/// Tensors [B, n] that are made one after the other, side by side [B, sum of n]. Each keeps its own way through backward, which Parts finds
/// again.
at::Tensor joined(const std::vector<std::function<at::Tensor()>>& parts);

/// A tensor [B, sum of sizes] in parts [B, n], taken in their order, each before what reads it.
///
/// Of what `joined` gave, backward comes to what made a part right behind what read it, instead of after everything that read any of them:
/// gradients of a modulation are there with those of its block. (The engine of autograd takes of all that it could do what was made last;
/// what made a part counts as made when the part is taken.) The bits are the same.
class Parts {
 public:
  Parts(const at::Tensor& whole, const std::vector<int64_t>& sizes);
  at::Tensor next();

 private:
  std::vector<at::Tensor> parts_;
  std::vector<uint64_t> begins_;  ///< node numbers from which what was made for a part begins; none where nothing is known of that
  size_t next_ = 0;
};

}  // namespace burnish::nn
