#include "models/families/flux/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

namespace burnish::models::flux {

namespace {

using mmdit::kTimeChannels, mmdit::time_projection;
/// The numbers of what is embedded, in the order of its layers.
constexpr size_t kTimeNumber = 0, kTextNumber = 1, kGuidanceNumber = 2;

mmdit::TrunkSizes trunk_sizes(const Config& c) {
  mmdit::TrunkSizes sizes{
      .in_channels = c.in_channels,
      .out_channels = c.out_channels,
      .caption_width = c.joint_attention_dim,
      .num_double = c.num_double_blocks,
      .num_single = c.num_single_blocks,
      .widths = {.num_heads = c.num_heads,
                 .head_dim = c.head_dim,
                 .hidden = static_cast<int64_t>(c.mlp_ratio * static_cast<double>(c.width()))},
      .axes = c.axes_dims_rope,
      .embedders = {{"time_text_embed.timestep_embedder", kTimeChannels}, {"time_text_embed.text_embedder", c.pooled_projection_dim}}};
  if (c.guidance_embeds) sizes.embedders.emplace_back("time_text_embed.guidance_embedder", kTimeChannels);
  return sizes;
}

}  // namespace

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part)
    : DoubleThenSingle(trunk_sizes(c), options, part), config_(c) {}

at::Tensor Transformer::condition(const Conditions& in) const {
  const auto dtype = in.pooled_BE.scalar_type();
  auto sum = embedded(kTimeNumber, time_projection(in.sigma_B, dtype));
  if (config_.guidance_embeds) sum = sum + embedded(kGuidanceNumber, time_projection(in.guidance_B, dtype));
  return at::silu(sum + embedded(kTextNumber, in.pooled_BE));
}

int64_t Grids::size() const {
  auto size = target.size();
  for (const auto& reference : references) size += reference.size();
  return size;
}

/// Returns the positions [T + I] of each axis: text tokens sit at (0, 0, 0), the target's token (r, c) at (0, r, c), a reference's at (1,
/// r, c) or where the target's would.
static std::vector<at::Tensor> positions(int64_t num_text, const Grids& grids, const at::TensorOptions& options) {
  std::vector<std::vector<at::Tensor>> axes(3, {at::zeros({num_text}, options)});
  auto add = [&](const Grid& grid, double first) {
    axes[0].push_back(at::full({grid.size()}, first, options));
    axes[1].push_back(at::arange(grid.rows, options).unsqueeze(1).expand({grid.rows, grid.columns}).reshape({-1}));
    axes[2].push_back(at::arange(grid.columns, options).unsqueeze(0).expand({grid.rows, grid.columns}).reshape({-1}));
  };
  add(grids.target, 0);
  for (const auto& reference : grids.references) add(reference, grids.are_apart ? 1 : 0);
  return {at::cat(axes[0]), at::cat(axes[1]), at::cat(axes[2])};
}

at::Tensor Transformer::forward(const Inputs& in) {
  return run_blocks({.latents_BIC = in.latents_BIC,
                     .text_BTE = in.text_BTE,
                     .modulation_BM = in.modulation_BM,
                     .hidden_BLD = in.hidden_BLD,
                     .added_BID = in.added_BID,
                     .prefix_BTD = in.prefix_BTD,
                     .further = in.further,
                     .after_block = in.after_block},
                    {.num_image = in.grids.size(),
                     .num_target = in.grids.target.size(),
                     .places = [&](int64_t num_text, const auto& options) { return positions(num_text, in.grids, options); }});
}

}  // namespace burnish::models::flux
