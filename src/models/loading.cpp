#include "models/loading.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cmath>

#include "base/dtype.h"
#include "base/error.h"

namespace burnish::models {

namespace {

constexpr const char* kScaleEndings[] = {".scale_weight", ".weight_scale"};
constexpr const char* kMarkEndings[] = {".scale_input", ".input_scale", ".comfy_quant"};

bool is_fp8(c10::ScalarType dtype) { return dtype == at::kFloat8_e4m3fn || dtype == at::kFloat8_e5m2; }

/// The layer whose scale a name is, or "".
std::string layer_of_scale(const std::string& name) {
  for (std::string_view ending : kScaleEndings) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return "";
}

bool is_mark(const std::string& name) {
  return name == "scaled_fp8" || name.ends_with(".scaled_fp8") ||
         std::any_of(std::begin(kMarkEndings), std::end(kMarkEndings), [&](std::string_view e) { return name.ends_with(e); });
}

/// Scales by our weight names. A scale per row follows its rows through stacking and swapping.
std::map<std::string, at::Tensor> read_scales(const io::TensorSource& tensors, const io::KeyMap& keys, const io::Shapes& wanted) {
  std::map<std::string, at::Tensor> scales;
  for (const auto& name : tensors.names()) {
    auto layer = layer_of_scale(name);
    if (layer.empty()) continue;
    auto scale = tensors.tensor(name).to(at::kFloat);
    if (scale.dim() == 1 && scale.numel() > 1) scale = scale.unsqueeze(1);
    auto match = keys.to_ours(layer + ".weight");
    int64_t row = 0;
    for (const auto& ours : match.ours) {
      auto it = wanted.find(ours);
      if (it == wanted.end()) continue;
      auto rows = it->second[0];
      bool by_row = scale.numel() > 1;
      if (by_row && row + rows > scale.size(0))
        data_error("models", "'{}' has {} scales for the {} rows of '{}'", name, scale.size(0), row + rows, layer + ".weight");
      auto part = by_row ? scale.narrow(0, row, rows) : scale;
      if (by_row && match.op == io::KeyRule::Op::swap_halves)
        part = at::cat({part.narrow(0, rows / 2, rows / 2), part.narrow(0, 0, rows / 2)});
      scales[ours] = part;
      row += rows;
    }
  }
  return scales;
}

/// FP8 numbers times their scale, or their rows' scales.
at::Tensor scaled(const at::Tensor& codes, const at::Tensor& scale) {
  auto by_row = scale.numel() > 1 ? scale.reshape({-1, 1}) : scale.reshape({});
  return (codes.to(at::kFloat).flatten(codes.dim() > 1 ? 1 : 0) * by_row).view(codes.sizes());
}

std::map<std::string, nn::LinearMap*> maps_of(nn::Module& module) {
  std::map<std::string, nn::LinearMap*> maps;
  module.visit([&](const std::string& path, nn::Module& child) {
    if (auto* map = dynamic_cast<nn::LinearMap*>(&child)) maps[path.empty() ? "weight" : path + ".weight"] = map;
  });
  return maps;
}

/// One sum tells of any NaN or infinity at the speed of memory; a sum that overflows is looked at again.
void check_finite(const at::Tensor& value, const at::Tensor& in_file, const std::string& name, const std::string& what) {
  if (std::isfinite(value.sum(at::kFloat).item<float>()) || at::isfinite(value).all().item<bool>()) return;
  if (at::isfinite(in_file.to(at::kFloat)).all().item<bool>()) {
    data_error("models", "the weight '{}' of {} holds a value of magnitude {:.4g}, beyond {}; choose --dtype bf16 or fp32", name, what,
               in_file.to(at::kFloat).abs().max().item<double>(), dtype_name(value.scalar_type()));
  }
  data_error("models", "the weight '{}' of {} is not finite, so its file is damaged: get it again", name, what);
}

}  // namespace

io::Shapes shapes_of(nn::Module& module) {
  io::Shapes shapes;
  module.visit_parameters([&](const std::string& name, at::Tensor& p) { shapes[name] = p.sizes().vec(); });
  return shapes;
}

io::TensorSource without_scales(const io::TensorSource& tensors) {
  std::vector<std::string> extra;
  for (const auto& name : tensors.names()) {
    if (is_mark(name) || !layer_of_scale(name).empty()) extra.push_back(name);
  }
  return extra.empty() ? tensors : tensors.without(extra);
}

void load_weights(nn::Module& module, const io::TensorSource& tensors, const io::KeyMap& keys, const at::TensorOptions& options,
                  nn::WeightStore* store, const std::string& what) {
  auto slots = module.parameters();
  auto wanted = shapes_of(module);
  auto maps = maps_of(module);
  auto scales = read_scales(tensors, keys, wanted);
  io::load_named(
      without_scales(tensors), keys, wanted,
      [&](const std::string& name, const at::Tensor& tensor) {
        auto scale = is_fp8(tensor.scalar_type()) && scales.contains(name) ? scales.at(name) : at::Tensor();
        if (auto map = maps.find(name); store && map != maps.end()) {
          if (auto source = store->store(name, tensor, scale, options.device())) return map->second->set_source(source);
        }
        auto value = scale.defined() ? scaled(tensor, scale) : tensor;
        auto& slot = *slots.at(name) = value.to(options, /*non_blocking=*/false, /*copy=*/true).contiguous();
        check_finite(slot, tensor, name, what);
      },
      what);
}

void store_weights(nn::Module& module, nn::WeightStore& store, c10::Device device) {
  for (auto& [name, map] : maps_of(module)) {
    if (auto source = store.store(name, map->weight, {}, device)) map->set_source(source);
  }
}

StoragePlan plan_storage(nn::Module& on_meta, const io::TensorSource* tensors, const io::KeyMap& keys, const nn::WeightStore& store) {
  std::map<std::string, c10::ScalarType> in_file;
  if (tensors != nullptr) {
    for (const auto& theirs : tensors->names()) {
      for (const auto& ours : keys.to_ours(theirs).ours) in_file[ours] = tensors->info(theirs).dtype;
    }
  }
  StoragePlan plan;
  auto maps = maps_of(on_meta);
  on_meta.visit_parameters([&](const std::string& name, at::Tensor& p) {
    int64_t bytes = -1;
    if (maps.contains(name)) {
      auto found = in_file.find(name);
      bytes = store.num_bytes(name, p.size(0), p.numel() / p.size(0), found == in_file.end() ? p.scalar_type() : found->second);
      (bytes < 0 ? plan.num_kept : plan.num_stored) += 1;
    }
    plan.elements += p.numel();
    plan.stored_elements += bytes < 0 ? 0 : p.numel();
    plan.num_bytes += bytes < 0 ? static_cast<int64_t>(p.nbytes()) : bytes;
  });
  return plan;
}

}  // namespace burnish::models
