#include "models/blocks/sandwich_block.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/tanh.h>

#include "kernels/gated_residual/gated_residual.h"
#include "models/blocks/scaled_norm.h"

namespace burnish::models {

namespace {

/// {weight of an RMS norm, x of several kinds of tokens, which are so many} -> the norm of each kind.
nn::Compute norm_of_each_by(double eps, const std::vector<int64_t>& lengths) {
  return [=](const nn::Tensors& in) {
    nn::Tensors each;
    for (const auto& x : in[1].split_with_sizes(lengths, 1)) each.push_back(at::rms_norm(x, in[0].sizes(), in[0], eps));
    return each;
  };
}

}  // namespace

SandwichBlock::SandwichBlock(const Sizes& sizes, const at::TensorOptions& options)
    : condition_width_(sizes.condition_width),
      attention_(sizes.attention, options),
      feed_forward_(sizes.attention.width, sizes.hidden, options, sizes.names.in_mlp),
      attention_norm1_(sizes.attention.width, sizes.norm_eps, options),
      attention_norm2_(sizes.attention.width, sizes.norm_eps, options),
      ffn_norm1_(sizes.attention.width, sizes.norm_eps, options),
      ffn_norm2_(sizes.attention.width, sizes.norm_eps, options),
      is_modulated_(sizes.condition_width > 0 || sizes.is_given_modulation) {
  own(sizes.names.attention, attention_);
  own(sizes.names.mlp, feed_forward_);
  own(sizes.names.attention_norm1, attention_norm1_);
  own(sizes.names.attention_norm2, attention_norm2_);
  own(sizes.names.ffn_norm1, ffn_norm1_);
  own(sizes.names.ffn_norm2, ffn_norm2_);
  if (condition_width_ == 0) return;
  modulation_ = std::make_unique<nn::Linear>(condition_width_, 4 * sizes.attention.width, options);
  own(sizes.modulation, *modulation_);
}

nn::Tensors SandwichBlock::normed(const Runs& runs, const nn::RMSNorm& norm, const std::function<nn::Tensors(const at::Tensor&)>& use,
                                  std::optional<size_t> scale) {
  nn::Tensors from{norm.weight};
  for (const auto& [x, m] : runs) {
    from.push_back(x);
    if (scale) from.push_back(m[*scale]);
  }
  return nn::recomputed(from, scaled_norm_by(norm.eps(), scale.has_value()), [&](const nn::Tensors& values) { return use(values[0]); });
}

void SandwichBlock::add(Runs& runs, const at::Tensor& y_BLD, const nn::RMSNorm& norm, const std::function<at::Tensor(const Run&)>& gate) {
  std::vector<int64_t> lengths;
  for (const auto& run : runs) lengths.push_back(run.x_BLD.size(1));
  auto sums = nn::recomputed({norm.weight, y_BLD}, norm_of_each_by(norm.eps(), lengths), [&](const nn::Tensors& values) {
    nn::Tensors added;
    for (size_t i = 0; i < runs.size(); ++i) {
      const auto by = gate(runs[i]);
      added.push_back(by.defined() ? kernels::gated_residual(runs[i].x_BLD, by, values[i]) : runs[i].x_BLD + values[i]);
    }
    return added;
  });
  for (size_t i = 0; i < runs.size(); ++i) runs[i].x_BLD = sums[i];
}

SandwichBlock::Runs SandwichBlock::runs_of(const nn::Tensors& in) const {
  if (!is_modulated_) return {{in[0]}};
  if (!modulation_) return {{in[0], in[3].chunk(4, -1)}};
  if (in[3].size(1) == condition_width_) return {{in[0], modulation_->forward(in[3]).chunk(4, -1)}};
  const auto both = modulation_->forward(in[3].unflatten(1, {2, condition_width_})).unbind(1);
  return {{in[4], both[1].chunk(4, -1)}, {in[0], both[0].chunk(4, -1)}};
}

nn::Tensors SandwichBlock::body_with(const nn::Tensors& in, const std::function<void(Runs&)>& between) const {
  auto runs = runs_of(in);
  const size_t num_fixed = 3 + (is_modulated_ ? runs.size() : 0);
  const auto bias = in.size() > num_fixed ? in[num_fixed] : at::Tensor();
  auto scale = [&](size_t number) { return is_modulated_ ? std::optional(number) : std::nullopt; };
  auto gate = [&](size_t number) {
    return [this, number](const Run& run) { return is_modulated_ ? at::tanh(run.modulation[number]) : at::Tensor(); };
  };
  auto projected = normed(
      runs, attention_norm1_, [&](const at::Tensor& x) { return attention_.project(x); }, scale(0));
  add(runs, attention_.attend(projected, in[1], in[2], bias), attention_norm2_, gate(1));
  if (between) between(runs);
  auto moved = normed(
      runs, ffn_norm1_, [&](const at::Tensor& x) { return nn::Tensors{feed_forward_.forward(x)}; }, scale(2));
  add(runs, moved[0], ffn_norm2_, gate(3));
  nn::Tensors out{runs.back().x_BLD};
  if (runs.size() > 1) out.push_back(runs[0].x_BLD);
  return out;
}

nn::Tensors SandwichBlock::body(const nn::Tensors& in) { return body_with(in, {}); }

}  // namespace burnish::models
