#include "models/families/longcat_image/transformer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

namespace burnish::models::longcat_image {

namespace {

mmdit::TrunkSizes trunk_sizes(const Config& c) {
  return {.in_channels = c.in_channels,
          .out_channels = c.in_channels,
          .caption_width = c.caption_width,
          .num_double = c.num_double_blocks,
          .num_single = c.num_single_blocks,
          .widths = {.num_heads = c.num_heads, .head_dim = c.head_dim, .hidden = 4 * c.width()},
          .axes = c.axes_dims,
          .embedders = {{"time_embed.timestep_embedder", mmdit::kTimeChannels}}};
}

/// Returns the places [L] of each axis: text token i sits at (0, i, i), the token (r, c) of the n-th picture, from 1 on, at (n, T + r, T +
/// c): behind the text's T tokens (diffusers: pipeline_longcat_image.py, pipeline_longcat_image_edit.py).
std::vector<at::Tensor> places(int64_t num_text, const std::vector<at::Tensor>& pictures_BCHW, const at::TensorOptions& options) {
  const auto along = at::arange(num_text, options);
  std::vector<std::vector<at::Tensor>> axes{{at::zeros({num_text}, options)}, {along}, {along}};
  for (size_t n = 0; n < pictures_BCHW.size(); ++n) {
    const auto rows = pictures_BCHW[n].size(2) / 2, columns = pictures_BCHW[n].size(3) / 2;
    auto behind_text = [&](int64_t count) { return at::arange(num_text, num_text + count, options); };
    axes[0].push_back(at::full({rows * columns}, static_cast<double>(n + 1), options));
    axes[1].push_back(behind_text(rows).unsqueeze(1).expand({rows, columns}).reshape({-1}));
    axes[2].push_back(behind_text(columns).unsqueeze(0).expand({rows, columns}).reshape({-1}));
  }
  return {at::cat(axes[0]), at::cat(axes[1]), at::cat(axes[2])};
}

}  // namespace

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part)
    : DoubleThenSingle(trunk_sizes(c), options, part), config_(c) {}

at::Tensor Transformer::condition(const at::Tensor& sigma_B, at::ScalarType dtype) const {
  return at::silu(embedded(0, mmdit::time_projection(sigma_B, dtype)));
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto pictures = in.references_BCHW;
  pictures.insert(pictures.begin(), in.noisy_BCHW);
  std::vector<at::Tensor> tokens;
  int64_t num_image = 0;
  for (const auto& picture : pictures) num_image += tokens.emplace_back(mmdit::to_tokens(picture)).size(1);
  const Layout layout{.num_image = num_image, .num_target = tokens[0].size(1), .places = [&](int64_t num_text, const auto& options) {
                        return places(num_text, pictures, options);
                      }};
  const bool begins = in.text_BTE.defined();
  auto out = run_blocks({.latents_BIC = begins ? at::cat(tokens, 1).to(in.text_BTE.scalar_type()) : at::Tensor(),
                         .text_BTE = in.text_BTE,
                         .modulation_BM = in.modulation_BM,
                         .hidden_BLD = in.hidden_BLD},
                        layout);
  if (!holds_last()) return out;
  return mmdit::from_tokens(out, in.noisy_BCHW.size(2) / 2, in.noisy_BCHW.size(3) / 2);
}

}  // namespace burnish::models::longcat_image
