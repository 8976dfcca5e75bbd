#include "models/families/anima/conditioner.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <string>

#include "models/blocks/mmdit.h"

namespace burnish::models::anima {

namespace {

constexpr double kRopeTheta = 10000;

std::pair<at::Tensor, at::Tensor> turns_of(int64_t length, int64_t head_dim, const at::TensorOptions& options) {
  return mmdit::rotary_tables({at::arange(length, options.dtype(at::kDouble))}, {head_dim}, kRopeTheta);
}

}  // namespace

Conditioner::Conditioner(const ConditionerConfig& c, const at::TensorOptions& options)
    : head_dim_(c.head_dim()),
      embed_(c.vocab_size, c.width, options),
      blocks_(mmdit::several<ConditionerBlock>(c.num_layers, c, options)),
      out_(c.width, c.width, options),
      norm_(c.width, kNormEps, options) {
  own("embed", embed_);
  for (size_t i = 0; i < blocks_.size(); ++i) own("blocks." + std::to_string(i), *blocks_[i]);
  own("out_proj", out_);
  own("norm", norm_);
}

at::Tensor Conditioner::forward(const Inputs& in) const {
  auto [cos, sin] = turns_of(in.ids_BT.size(1), head_dim_, in.source_BSE.options());
  auto [source_cos, source_sin] = turns_of(in.source_BSE.size(1), head_dim_, in.source_BSE.options());
  nn::Tensors inputs{embed_.forward(in.ids_BT).to(in.source_BSE.scalar_type()), in.source_BSE, cos, sin, source_cos, source_sin};
  // One sample alone has nothing that is masked.
  if (in.ids_BT.size(0) > 1) inputs.insert(inputs.end(), {mmdit::padding_bias(in.mask_BT, 0), mmdit::padding_bias(in.mask_BS, 0)});
  for (const auto& block : blocks_) inputs[0] = block->run(inputs)[0];
  auto rows = norm_.forward(out_.forward(inputs[0]));
  return rows * in.mask_BT.to(rows.scalar_type()).unsqueeze(-1);
}

}  // namespace burnish::models::anima
