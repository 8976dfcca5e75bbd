#include "models/blocks/modulated_rms_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rms_norm.h>

namespace burnish::models {

nn::Compute modulated_rms_norm(double eps) {
  return [eps](const nn::Tensors& in) {
    nn::Tensors runs;
    for (size_t i = 0; i < in.size(); i += 4) {
      auto normed = at::rms_norm(in[i], in[i + 1].sizes(), in[i + 1], eps).to(at::kFloat);
      auto moved = normed * (in[i + 2].to(at::kFloat) + 1).unsqueeze(1) + in[i + 3].to(at::kFloat).unsqueeze(1);
      runs.push_back(moved.to(in[i].scalar_type()));
    }
    return nn::Tensors{runs.size() == 1 ? runs[0] : at::cat(runs, 1)};
  };
}

}  // namespace burnish::models
