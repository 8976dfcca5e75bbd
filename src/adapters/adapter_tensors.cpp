#include "adapters/adapter_tensors.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "adapters/layers_in_file.h"

namespace burnish::adapters {

namespace {

/// A parameter in the shape that other programs give it: kernels of a convolution have their dimensions, factors of LoHa and of a split
/// LoKr two.
at::Tensor in_file_shape(const std::string& part, const at::Tensor& p, const kernels::Product& product) {
  if (part == "oft_blocks") return p.unflatten(0, {-1, p.size(1)});
  if (part == "lora_A.weight" || part == "lokr_w2" || part == "diff") return p.view(product.weight_sizes(p.size(0), p.size(1)));
  if (part == "lora_B.weight") return p.view(product.pointwise()->weight_sizes(p.size(0), p.size(1)));
  return p;
}

/// One number for each index of dimension `dim` of a weight of this product.
at::Tensor along_weight(const at::Tensor& m, size_t dim, const kernels::Product& product) {
  std::vector<int64_t> sizes(product.weight_sizes(1, product.columns_per_channel()).size(), 1);
  sizes[dim] = m.size(0);
  return m.view(sizes);
}

/// diffusers hands its text encoders' adapters to transformers, which (5.23) leaves a magnitude without `.weight` unread; peft takes
/// both spellings, and writes the one without.
const char* magnitude_name(const LayerPrefixes& prefixes) {
  return prefixes.diffusers.starts_with("text_encoder") ? ".lora_magnitude_vector.weight" : ".lora_magnitude_vector";
}

}  // namespace

std::vector<AdapterValue> adapter_values(const AdaptedList& adapted, const LayerPrefixes& prefixes, c10::ScalarType dtype, Layout layout) {
  std::vector<AdapterValue> values;
  auto add = [&](const std::string& name, const at::Tensor& value) {
    values.push_back({{name, value.scalar_type(), value.sizes().vec()}, [value] { return value; }});
  };
  const auto chosen = settled(layout, {adapted});
  const bool is_diffsynth = chosen == Layout::diffsynth;
  for (const auto& item : in_layout(adapted, prefixes, chosen)) {
    const auto& name = item.path;
    const auto& update = item.adapter->update();
    const auto& product = *item.layer->product();
    // LoHa and LoKr are nothing that diffusers could refuse for it.
    bool has_alpha = !is_diffsynth && (chosen != Layout::diffusers || prefixes.diffusers_alpha || update.kind() != Kind::lora);
    for (auto [part, tensor] : update.parameters()) {
      const auto value = in_file_shape(part, tensor.detach(), product);
      const double scale = !has_alpha && part == "lora_B.weight" ? update.scale() : 1;
      if (chosen != Layout::diffusers && part == "lora_A.weight") part = is_diffsynth ? "lora_A.default.weight" : "lora_down.weight";
      if (chosen != Layout::diffusers && part == "lora_B.weight") part = is_diffsynth ? "lora_B.default.weight" : "lora_up.weight";
      values.push_back({{name + "." + part, dtype, value.sizes().vec()},
                        [value, scale, dtype] { return (scale == 1 ? value : value * scale).to(dtype); }});
    }
    // OFT's alpha is the limit of its blocks, of which it has none; a full delta has none either way.
    auto alpha = update.kind() == Kind::oft ? 0 : update.scale() * static_cast<double>(std::max<int64_t>(update.rank(), 1));
    if (has_alpha && update.kind() != Kind::full) add(name + ".alpha", at::full({}, alpha, at::TensorOptions().dtype(at::kFloat)));
    if (!item.adapter->is_dora()) continue;
    auto m = item.adapter->magnitude().m.detach();
    bool by_output = item.adapter->magnitude().axis == NormAxis::output;
    if (chosen == Layout::diffusers && by_output) {
      // peft has [out] for linear layers and [1, out, 1...] for convolutions
      add(name + magnitude_name(prefixes), product.channel_dim() == -1 ? m : along_weight(m, 1, product));
    } else {
      add(name + ".dora_scale", along_weight(m, by_output ? 0 : 1, product));
    }
  }
  return values;
}

io::NamedTensors adapter_tensors(const AdaptedList& adapted, const LayerPrefixes& prefixes, c10::ScalarType dtype, Layout layout) {
  io::NamedTensors tensors;
  for (const auto& value : adapter_values(adapted, prefixes, dtype, layout)) tensors.emplace_back(value.spec.name, value.get());
  return tensors;
}

}  // namespace burnish::adapters
