#include "convert/written_component.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/dtype.h"
#include "base/error.h"
#include "base/pattern.h"
#include "quant/quantized_weight.h"

namespace burnish::convert {

namespace {

using Op = io::KeyRule::Op;

constexpr const char* kScaleEnding = ".scale_weight";
constexpr const char* kMark = "scaled_fp8";  // tells ComfyUI that weights have scales; two numbers: not to be multiplied as codes

std::string path_of(const std::string& name) { return name.ends_with(".weight") ? name.substr(0, name.size() - 7) : ""; }

std::string scale_name(const std::string& weight) { return path_of(weight) + kScaleEnding; }

/// FP8 tensors as bytes, which libtorch can join and transpose.
at::Tensor as_bytes(const at::Tensor& t) { return is_fp8(t.scalar_type()) ? t.view(at::kByte) : t; }

c10::ScalarType dtype_of(quant::CodeKind codes) { return codes == quant::CodeKind::e5m2 ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn; }

}  // namespace

WrittenComponent::WrittenComponent(const models::Model& model, const std::string& component, const models::FileNames& names,
                                   const NumberFormat& format)
    : weights_(model, component),
      merge_(model.components().holding(component).merge),
      prefix_(names.prefix),
      what_(component),
      format_(format) {
  std::vector<std::string> ours;
  for (const auto& [name, shape] : weights_.shapes()) ours.push_back(name);
  for (const auto& rule : names.keys.to_file(ours)) items_.push_back(item_of(rule, model.names().of(component).high_precision));
}

bool WrittenComponent::touched(const std::string& name) const { return merge_ && weights_.layer(path_of(name)) && merge_->touches(path_of(name)); }

WrittenComponent::Item WrittenComponent::item_of(const io::KeyRule& rule, const std::vector<std::string>& high_precision) const {
  Item item{.rule = rule, .shape = {}, .dtype = at::kFloat, .quantized = {}};
  std::vector<at::Tensor> on_meta;
  bool all_codes = true, some_codes = false, any_touched = false, linear = true;
  std::optional<c10::ScalarType> stored;
  for (const auto& name : rule.ours) {
    auto dtype = weights_.dtype(name);
    all_codes = all_codes && is_fp8(dtype) && (!stored || *stored == dtype);
    some_codes = some_codes || is_fp8(dtype);
    any_touched = any_touched || touched(name);
    auto as_number = is_fp8(dtype) ? at::kBFloat16 : dtype;
    stored = all_codes ? dtype : stored && !is_fp8(*stored) ? c10::promoteTypes(*stored, as_number) : as_number;
    on_meta.push_back(at::empty(weights_.shapes().at(name), at::TensorOptions().device(at::kMeta)));
    bool is_weight = weights_.layer(path_of(name)) && weights_.shapes().at(name).size() == 2;
    auto stays = [&](const auto& pattern) { return Pattern("convert", "high_precision", pattern).matches(path_of(name)); };
    linear = linear && is_weight && std::none_of(high_precision.begin(), high_precision.end(), stays);
  }
  item.shape = io::tensor_in_file(rule, on_meta).sizes().vec();
  bool codes_stay = all_codes && format_.keeps_codes && !format_.weights;
  if (codes_stay && !any_touched) {
    item.kept = true;
    item.dtype = *stored;
    auto scale = kept_scale(rule);
    item.has_scale = scale.defined();
    if (item.has_scale) item.scale_shape = scale.sizes().vec();
  } else if (codes_stay || (format_.weights && linear)) {
    auto codes = all_codes && *stored == at::kFloat8_e5m2 ? quant::CodeKind::e5m2 : quant::CodeKind::e4m3;
    item.quantized = codes_stay ? quant::Format{codes, quant::Scaling::row} : *format_.weights;
    item.dtype = dtype_of(item.quantized->codes);
    item.has_scale = item.quantized->scaling != quant::Scaling::none;
    if (item.quantized->scaling == quant::Scaling::row) item.scale_shape = {item.shape[0], 1};
  } else {
    auto number = some_codes && is_fp8(*stored) ? at::kBFloat16 : *stored;
    item.dtype = c10::isFloatingType(number) ? format_.dtype.value_or(number) : number;
  }
  return item;
}

std::vector<io::TensorSpec> WrittenComponent::specs() const {
  std::vector<io::TensorSpec> specs;
  bool any_scale = false;
  for (const auto& item : items_) {
    specs.push_back({prefix_ + item.rule.theirs, item.dtype, item.shape});
    if (item.has_scale) specs.push_back({prefix_ + scale_name(item.rule.theirs), at::kFloat, item.scale_shape});
    any_scale = any_scale || item.has_scale;
  }
  if (any_scale) specs.push_back({prefix_ + kMark, at::kFloat8_e4m3fn, {2}});
  return specs;
}

at::Tensor WrittenComponent::merged(const std::string& path) const {
  at::NoGradGuard no_grad;
  const auto& layer = *weights_.layer(path);
  nn::LinearMap alone(weights_.matrix(path).clone().view(layer.weight.sizes()), layer.product());
  merge_->apply(path, alone);
  if (!at::isfinite(alone.weight).all().item<bool>())
    data_error("convert",
               "the weight of '{}' of the {} is not finite with LoRAs merged into it ({}): one of the files is damaged, or a strength too large",
               path, what_, merge_->settings());
  return alone.weight;
}

at::Tensor WrittenComponent::numbers(const std::string& name) const {
  return touched(name) ? merged(path_of(name)) : weights_.parameter(name);
}

at::Tensor WrittenComponent::kept_scale(const io::KeyRule& rule) const {
  std::vector<at::Tensor> scales;
  bool any = false, by_row = false;
  for (const auto& name : rule.ours) {
    scales.push_back(weights_.scale(name));
    any = any || scales.back().defined();
  }
  if (!any) return {};
  for (auto& scale : scales) {
    if (!scale.defined()) scale = at::ones({}, at::kFloat);
    by_row = by_row || scale.numel() > 1 || scale.item<float>() != scales[0].item<float>();
  }
  if (!by_row) return scales[0];
  if (rule.op == Op::transpose) data_error("convert", "'{}' has a scale for each row, and its rows are columns in this file; write it with --weight_format none", rule.theirs);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = scales[i].reshape({-1, 1}).expand({weights_.shapes().at(rule.ours[i])[0], 1});
  return io::tensor_in_file(rule, scales).contiguous();
}

void WrittenComponent::make_codes(const Item& item, const std::function<void(const std::string&, const at::Tensor&)>& write) const {
  std::vector<at::Tensor> parts;
  for (const auto& name : item.rule.ours) parts.push_back(item.kept ? as_bytes(weights_.stored(name).values) : numbers(name).to(at::kFloat));
  auto whole = io::tensor_in_file(item.rule, parts).contiguous();
  auto name = prefix_ + item.rule.theirs, scale = prefix_ + scale_name(item.rule.theirs);
  if (item.kept) {
    write(name, whole.view(item.dtype));
    if (item.has_scale) write(scale, kept_scale(item.rule));
    return;
  }
  auto weight = quant::quantize(whole.flatten(1), *item.quantized, at::kCPU, name);
  write(name, weight.codes.view(item.dtype).view(item.shape));
  if (item.has_scale) write(scale, weight.scales.reshape(item.scale_shape));
}

void WrittenComponent::make(const std::function<void(const std::string&, const at::Tensor&)>& write) const {
  bool any_scale = false;
  for (const auto& item : items_) {
    any_scale = any_scale || item.has_scale;
    if (item.kept || item.quantized) {
      make_codes(item, write);
    } else {
      std::vector<at::Tensor> parts;
      for (const auto& name : item.rule.ours) parts.push_back(numbers(name).to(item.dtype));
      write(prefix_ + item.rule.theirs, io::tensor_in_file(item.rule, parts));
    }
    for (const auto& name : item.rule.ours) weights_.release(name);
  }
  if (any_scale) write(prefix_ + kMark, at::zeros({2}, at::kByte).view(at::kFloat8_e4m3fn));
}

}  // namespace burnish::convert
