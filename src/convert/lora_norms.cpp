#include "convert/lora_norms.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "adapters/layers_in_file.h"
#include "adapters/make_change.h"
#include "base/text.h"
#include "convert/model_of_lora.h"
#include "convert/weights.h"
#include "loras/lora_file.h"

namespace burnish::convert {

namespace {

/// The sum of squares of what an adapter adds; of B A by tr(BᵀB AAᵀ), so that the product is never made.
std::optional<double> squares_of(const adapters::AdapterWeights& w, const nn::LinearMap& layer) {
  if (w.kind != adapters::Kind::lora || w.magnitude.m.defined()) {
    const auto delta = delta_alone(w, layer);
    return delta ? std::optional(delta->to(at::kDouble).square().sum().template item<double>()) : std::nullopt;
  }
  at::Tensor a_RI, b_OR;
  for (const auto& [name, factor] : adapters::cut(w).parameters) {
    if (name == "lora_A.weight") a_RI = factor.to(at::kDouble);
    if (name == "lora_B.weight") b_OR = factor.to(at::kDouble);
  }
  return w.scale * w.scale * (b_OR.t().mm(b_OR) * a_RI.mm(a_RI.t())).sum().item<double>();
}

void add(BlockNorm& sum, const adapters::AdapterWeights& w, const ComponentWeights& layers) {
  const auto* layer = layers.layer(w.path);
  const auto squares = layer == nullptr || w.target != "weight" ? std::nullopt : squares_of(w, *layer);
  ++sum.num_layers;
  if (squares) sum.norm += *squares;
  else ++sum.num_unknown;
}

}  // namespace

std::optional<at::Tensor> delta_alone(const adapters::AdapterWeights& weights, const nn::LinearMap& layer) {
  at::NoGradGuard no_grad;
  auto parameters = weights.parameters;
  for (auto& [name, tensor] : parameters) tensor = tensor.to(at::kFloat).contiguous();
  const auto change = adapters::make_change(weights.kind, parameters, weights.scale, weights.fused_rows);
  if (weights.magnitude.m.defined() || change->needs_weight()) return std::nullopt;
  return change->rows(layer.source(), 0, layer.out_features());
}

std::vector<BlockNorm> norms_by_block(const std::string& lora, const std::vector<std::string>& names) {
  at::NoGradGuard no_grad;
  const auto model = model_of(lora, names);
  std::vector<BlockNorm> norms;
  for (const auto& [component, weights] : loras::read(*model, lora, loras::Absent::as_published)) {
    const ComponentWeights layers(*model, component);
    const auto blocks = models::block_paths(model->components(), component);
    BlockNorm others{.block = component};
    std::vector<BlockNorm> of_blocks(blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) of_blocks[i].block = component + "." + blocks[i];
    for (const auto& w : weights) {
      const auto block = std::ranges::find_if(blocks, [&](const auto& path) { return lies_below(w.path, path); });
      add(block == blocks.end() ? others : of_blocks[static_cast<size_t>(block - blocks.begin())], w, layers);
    }
    norms.push_back(others);
    norms.insert(norms.end(), of_blocks.begin(), of_blocks.end());
  }
  std::erase_if(norms, [](const auto& norm) { return norm.num_layers == 0; });
  double sum = 0;
  for (const auto& norm : norms) sum += norm.norm;
  for (auto& norm : norms) {
    norm.share = sum > 0 ? norm.norm / sum : 0;
    norm.norm = std::sqrt(norm.norm);
  }
  return norms;
}

}  // namespace burnish::convert
