#include "convert/written_component.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/dtype.h"
#include "base/input_error.h"
#include "models/model/kept_dtypes.h"

namespace burnish::convert {

namespace {

using Op = io::KeyRule::Op;

constexpr const char* kMark = "scaled_fp8";  // tells ComfyUI that weights have scales; two numbers: not to be multiplied as codes

std::string path_of(const std::string& name) { return name.ends_with(".weight") ? name.substr(0, name.size() - 7) : ""; }

std::vector<io::TensorSpec> specs_of(const io::NamedTensors& tensors) {
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  return specs;
}

}  // namespace

WrittenComponent::WrittenComponent(const models::Model& model, const std::string& component, const models::FileNames& names,
                                   const NumberFormat& format)
    : weights_(model, component),
      merge_(model.components().holding(component).merge),
      prefix_(names.prefix),
      what_(component),
      format_(format),
      kept_(models::kept_in_fp32(model.components(), component)) {
  std::vector<std::string> ours;
  for (const auto& [name, shape] : weights_.shapes()) ours.push_back(name);
  for (const auto& pattern : model.names().of(component).high_precision) high_precision_.emplace_back("convert", "high_precision", pattern);
  for (const auto& rule : names.keys.to_file(ours)) items_.push_back(item_of(rule));
}

bool WrittenComponent::touched(const std::string& name) const { return merge_ && merge_->touches(name); }

/// Holds what the tensors behind one of the file's have in common.
struct WrittenComponent::Parts {
  std::optional<CodeKind> codes;           ///< the codes that all have, of those that are written
  std::optional<c10::ScalarType> numbers;  ///< the dtype that holds all as numbers
  bool touched = false, linear = true;     ///< one is merged into; all are weights that may be stored as codes
  bool kept = false;                       ///< one stays in fp32 where its file has it so
};

WrittenComponent::Parts WrittenComponent::parts_of(const io::KeyRule& rule) const {
  Parts parts;
  parts.codes = weights_.info(rule.ours[0]).kind();
  for (const auto& name : rule.ours) {
    const auto& info = weights_.info(name);
    if (!info.codes || !is_written(info.codes->kind) || info.kind() != parts.codes) parts.codes = std::nullopt;
    auto number = info.codes ? at::kBFloat16 : info.dtype;
    parts.numbers = parts.numbers ? c10::promoteTypes(*parts.numbers, number) : number;
    parts.touched = parts.touched || touched(name);
    parts.kept = parts.kept || kept_.contains(name);
    auto path = path_of(name);
    bool stays = std::any_of(high_precision_.begin(), high_precision_.end(), [&](const auto& pattern) { return pattern.matches(path); });
    parts.linear = parts.linear && !stays && weights_.layer(path) && weights_.shapes().at(name).size() == 2;
  }
  return parts;
}

WrittenComponent::Item WrittenComponent::item_of(const io::KeyRule& rule) const {
  Item item{.rule = rule};
  std::vector<at::Tensor> on_meta;
  for (const auto& name : rule.ours) on_meta.push_back(at::empty(weights_.shapes().at(name), at::TensorOptions().device(at::kMeta)));
  const auto whole = io::tensor_in_file(rule, on_meta);
  const auto name = prefix_ + rule.theirs;
  const auto parts = parts_of(rule);
  if (parts.codes && !parts.touched && format_.keeps_codes && !format_.weights) {
    if (auto kept = kept_codes(rule, /*is_plan=*/true)) {
      item.kept = true;
      item.specs = specs_of(tensors_of(*kept, name));
      return item;
    }
  }
  const bool can_have_scale = rule.theirs.ends_with(".weight");  // scales are called after that
  if (can_have_scale && parts.linear && format_.weights && fits(*format_.weights, whole.sizes())) item.quantized = format_.weights;
  else if (can_have_scale && parts.codes && format_.keeps_codes) item.quantized = {*parts.codes, quant::Scaling::row};
  if (item.quantized) {
    item.specs = specs_of(tensors_of(codes_for_file(whole, *item.quantized, name), name));
    return item;
  }
  const bool stays = !c10::isFloatingType(*parts.numbers) || (parts.kept && parts.numbers == at::kFloat);
  item.specs = {{name, stays ? *parts.numbers : format_.dtype.value_or(*parts.numbers), whole.sizes().vec()}};
  return item;
}

bool WrittenComponent::has_scaled_fp8() const {
  return std::ranges::any_of(items_, [](const Item& item) { return item.specs.back().name.ends_with(kFp8Scale); });
}

std::vector<io::TensorSpec> WrittenComponent::specs() const {
  std::vector<io::TensorSpec> specs;
  for (const auto& item : items_) specs.insert(specs.end(), item.specs.begin(), item.specs.end());
  if (has_scaled_fp8()) specs.push_back({prefix_ + kMark, at::kFloat8_e4m3fn, {2}});
  return specs;
}

at::Tensor WrittenComponent::merged(const std::string& name) const {
  at::NoGradGuard no_grad;
  const auto* layer = weights_.layer(path_of(name));
  auto sizes = weights_.shapes().at(name);
  // As Merge has them: a bias, the weight of a norm or a table is a matrix of one column.
  auto before = [&](const std::string& of) {
    auto parameter = weights_.parameter(of).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    return parameter.dim() == 1 ? parameter.unsqueeze(1) : parameter;
  };
  nn::LinearMap alone(layer ? before(name) : before(name).reshape({-1, 1}), layer ? layer->product() : kernels::matrix_product());
  merge_->apply(name, alone, [&](const std::string& other) { return before(other).flatten(1); });
  if (!at::isfinite(alone.weight).all().item<bool>())
    data_error("convert",
               "'{}' of the {} is not finite with LoRAs merged into it ({}): one of the files is damaged, or a strength too large", name,
               what_, merge_->settings());
  return alone.weight.view(sizes);
}

at::Tensor WrittenComponent::numbers(const std::string& name) const { return touched(name) ? merged(name) : weights_.parameter(name); }

at::Tensor WrittenComponent::kept_scale(const io::KeyRule& rule) const {
  std::vector<at::Tensor> scales;
  bool any = false, by_row = false;
  for (const auto& name : rule.ours) {
    scales.push_back(weights_.stored(name).codes.value_or(Codes{}).scales);
    any = any || scales.back().defined();
  }
  if (!any) return {};
  for (auto& scale : scales) {
    if (!scale.defined()) scale = at::ones({1, 1}, at::kFloat);
    by_row = by_row || scale.numel() > 1 || scale.item<float>() != scales[0].item<float>();
  }
  if (!by_row) return scales[0].reshape({});
  if (rule.op == Op::transpose)
    data_error("convert", "'{}' has a scale for each row, and its rows are columns in this file; write it with --weight_format none",
               rule.theirs);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = scales[i].reshape({-1, 1}).expand({weights_.shapes().at(rule.ours[i])[0], 1});
  return io::tensor_in_file(rule, scales).contiguous();
}

/// The codes that a tensor of the file is made of, as they lie; nothing where its rows are not theirs, or are rotated differently.
std::optional<CodesInFile> WrittenComponent::kept_codes(const io::KeyRule& rule, bool is_plan) const {
  std::vector<at::Tensor> parts;
  CodesInFile kept;
  for (const auto& name : rule.ours) {
    const auto codes = weights_.stored(name).codes;
    if (!codes || (!parts.empty() && codes->rotation != kept.rotation)) return std::nullopt;
    kept.kind = codes->kind;
    kept.rotation = codes->rotation;
    const auto bytes = codes->codes.reshape(codes->sizes);
    parts.push_back(is_plan ? at::empty_like(bytes, bytes.options().device(at::kMeta)) : bytes);
  }
  kept.codes = io::tensor_in_file(rule, parts).contiguous().view(dtype_in_file(kept.kind));
  kept.scales = kept_scale(rule);
  if (kept.scales.defined() && !rule.theirs.ends_with(".weight")) return std::nullopt;  // which scales are called after
  return kept;
}

io::NamedTensors WrittenComponent::made_codes(const Item& item) const {
  const auto name = prefix_ + item.rule.theirs;
  if (item.kept) return tensors_of(*kept_codes(item.rule, /*is_plan=*/false), name);
  std::vector<at::Tensor> parts;
  for (const auto& ours : item.rule.ours) parts.push_back(numbers(ours).to(at::kFloat));
  return tensors_of(codes_for_file(io::tensor_in_file(item.rule, parts).contiguous(), *item.quantized, name), name);
}

void WrittenComponent::make(const std::function<void(const std::string&, const at::Tensor&)>& write) const {
  for (const auto& item : items_) {
    if (item.kept || item.quantized) {
      for (const auto& [name, tensor] : made_codes(item)) write(name, tensor);
    } else {
      std::vector<at::Tensor> parts;
      for (const auto& name : item.rule.ours) parts.push_back(numbers(name).to(item.specs[0].dtype));
      write(item.specs[0].name, io::tensor_in_file(item.rule, parts));
    }
    for (const auto& name : item.rule.ours) weights_.release(name);
  }
  if (has_scaled_fp8()) write(prefix_ + kMark, at::zeros({2}, at::kByte).view(at::kFloat8_e4m3fn));
}

}  // namespace burnish::convert
