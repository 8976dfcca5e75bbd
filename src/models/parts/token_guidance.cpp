#include "models/parts/token_guidance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/norm.h>

#include "base/input_error.h"

namespace burnish::models {

namespace {

/// Views latents [B, C, H, W], or those of layers [B, C, F, H, W], as [B, C, rows, 2, columns, 2] or [B, C, F, ...]: the dimensions C, 2
/// and 2 are the numbers of a token.
at::Tensor as_patches(const at::Tensor& x) { return x.unflatten(-1, {-1, 2}).unflatten(-3, {-1, 2}); }
at::Tensor lengths(const at::Tensor& x) { return at::norm(as_patches(x), 2, {1, -3, -1}, /*keepdim=*/true); }

at::Tensor guided_by(const at::Tensor& conditional, const at::Tensor& unconditional, double scale, double rescale) {
  if (rescale != 0)
    config_error("models", "guidance_rescale is {}, and this model's guided predictions are brought back token by token; leave it at 0",
                 rescale);
  return diffusion::guide(conditional, unconditional, scale, 0);
}
at::Tensor scaled(const at::Tensor& guided, const at::Tensor& by) { return (as_patches(guided) * by).reshape(guided.sizes()); }

}  // namespace

// diffusers: pipeline_qwenimage.py.
at::Tensor guide_tokens(const at::Tensor& conditional, const at::Tensor& unconditional, double scale, double rescale) {
  const auto guided = guided_by(conditional, unconditional, scale, rescale);
  return scaled(guided, lengths(conditional) / lengths(guided));
}

// diffusers: pipeline_longcat_image.py.
at::Tensor guide_tokens_down(const at::Tensor& conditional, const at::Tensor& unconditional, double scale, double rescale) {
  const auto guided = guided_by(conditional, unconditional, scale, rescale);
  return scaled(guided, at::clamp_max(lengths(conditional) / (lengths(guided) + 1e-8), 1));
}

}  // namespace burnish::models
