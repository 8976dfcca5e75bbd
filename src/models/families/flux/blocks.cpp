#include "models/families/flux/blocks.h"

namespace burnish::models::flux {

namespace {

mmdit::Widths block_widths(const Config& c) {
  return {.num_heads = c.num_heads, .head_dim = c.head_dim, .hidden = static_cast<int64_t>(c.mlp_ratio * static_cast<double>(c.width()))};
}

}  // namespace

DoubleBlock::DoubleBlock(const Config& c, const at::TensorOptions& options)
    : mmdit::DoubleBlock(block_widths(c), options, {.image_mlp = "ff", .text_mlp = "ff_context"}) {}

SingleBlock::SingleBlock(const Config& c, const at::TensorOptions& options) : mmdit::SingleBlock(block_widths(c), options) {}

}  // namespace burnish::models::flux
