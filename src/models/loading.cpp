#include "models/loading.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cmath>
#include <utility>

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

std::map<std::string, nn::LinearMap*> maps_of(nn::Module& module) {
  std::map<std::string, nn::LinearMap*> maps;
  module.visit([&](const std::string& path, nn::Module& child) {
    if (auto* map = dynamic_cast<nn::LinearMap*>(&child)) maps[path.empty() ? "weight" : path + ".weight"] = map;
  });
  return maps;
}

/// One sum tells of any NaN or infinity at the speed of memory; a sum that overflows is looked at again.
bool is_finite(const at::Tensor& value) {
  return std::isfinite(value.sum(at::kFloat).item<float>()) || at::isfinite(value).all().item<bool>();
}

[[noreturn]] void refuse_damaged(const std::string& name, const std::string& what) {
  data_error("models", "the weight '{}' of {} is not finite, so its file is damaged: get it again", name, what);
}

void check_finite(const at::Tensor& value, const at::Tensor& in_file, const std::string& name, const std::string& what) {
  if (is_finite(value)) return;
  if (at::isfinite(in_file.to(at::kFloat)).all().item<bool>()) {
    data_error("models", "the weight '{}' of {} holds a value of magnitude {:.4g}, beyond {}; choose --dtype bf16 or fp32", name, what,
               in_file.to(at::kFloat).abs().max().item<double>(), dtype_name(value.scalar_type()));
  }
  refuse_damaged(name, what);
}

}  // namespace

// A scale per row follows its rows through stacking and swapping.
std::map<std::string, at::Tensor> scales_of(const io::TensorSource& tensors, const io::KeyMap& keys, const io::Shapes& wanted) {
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

at::Tensor scaled(const at::Tensor& codes, const at::Tensor& scale) {
  auto by_row = scale.numel() > 1 ? scale.reshape({-1, 1}) : scale.reshape({});
  return (codes.to(at::kFloat).flatten(codes.dim() > 1 ? 1 : 0) * by_row).view(codes.sizes());
}

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

namespace {

/// Puts what is read into a module, tensor by tensor.
class Placing {
 public:
  Placing(nn::Module& module, const io::Shapes& wanted, const Reading& reading)
      : reading_(reading),
        wanted_(wanted),
        slots_(module.parameters()),
        maps_(maps_of(module)),
        scales_(scales_of(reading.tensors, reading.keys, wanted)) {}

  void place(const std::string& name, const at::Tensor& in_file) const {
    auto value = in_file;
    auto scale = scale_of(name, in_file);
    auto map = maps_.find(name);
    if (reading_.merge && reading_.merge->touches(name))
      value = merged(name, map == maps_.end() ? nullptr : map->second->product(), value, std::exchange(scale, {}));
    if (reading_.store && map != maps_.end()) {
      auto source = reading_.store->store(name, value, scale, reading_.options.device(), in_file.scalar_type());
      if (source) return map->second->set_source(source);
    }
    if (scale.defined()) value = scaled(value, scale);
    auto& slot = *slots_.at(name);
    // In the dtype that the module made it with, which may be wider than the run's.
    slot = value.to(reading_.options.dtype(slot.scalar_type()), /*non_blocking=*/false, /*copy=*/true).contiguous();
    check_finite(slot, value, name, reading_.what);
  }

 private:
  at::Tensor scale_of(const std::string& name, const at::Tensor& in_file) const {
    return is_fp8(in_file.scalar_type()) && scales_.contains(name) ? scales_.at(name) : at::Tensor();
  }

  /// As a matrix or kernels in fp32, which is what it is computed with.
  at::Tensor exact(const at::Tensor& in_file, const at::Tensor& scale) const {
    auto value = (scale.defined() ? scaled(in_file, scale) : in_file).to(reading_.options.dtype(at::kFloat), false, /*copy=*/true);
    return value.dim() == 1 ? value.unsqueeze(1) : value.contiguous();
  }

  /// What a parameter becomes: the weight of a layer with this product, or without one what is changed number by number.
  at::Tensor merged(const std::string& name, const kernels::ProductPtr& product, const at::Tensor& in_file, const at::Tensor& scale) const {
    auto value = exact(in_file, scale);
    if (!product) value = value.reshape({-1, 1});
    nn::LinearMap alone(value, product ? product : kernels::matrix_product());
    if (!is_finite(alone.weight)) refuse_damaged(name, reading_.what);
    reading_.merge->apply(name, alone, [&](const std::string& other) {
      auto parameter = io::load_one(without_scales(reading_.tensors), reading_.keys, wanted_, other);
      return exact(parameter, scale_of(other, parameter));
    });
    if (!is_finite(alone.weight)) {
      data_error("models",
                 "'{}' of {} is not finite with LoRAs merged into it ({}): one of their files is damaged, or its strength too large", name,
                 reading_.what, reading_.merge->settings());
    }
    return alone.weight.view(in_file.sizes());
  }

  const Reading& reading_;
  const io::Shapes& wanted_;
  std::map<std::string, at::Tensor*> slots_;
  std::map<std::string, nn::LinearMap*> maps_;
  std::map<std::string, at::Tensor> scales_;
};

}  // namespace

void load_weights(nn::Module& module, const Reading& reading, const std::function<void()>& placed) {
  auto wanted = shapes_of(module);
  Placing placing(module, wanted, reading);
  io::load_named(
      without_scales(reading.tensors), reading.keys, wanted,
      [&](const std::string& name, const at::Tensor& tensor) {
        placing.place(name, tensor);
        if (placed) placed();
      },
      reading.what);
}

void reload_weights(nn::Module& module, nn::Module& skeleton, const std::set<std::string>& names, const Reading& reading) {
  auto wanted = shapes_of(skeleton);
  auto maps = maps_of(module);
  Placing placing(module, wanted, reading);
  io::load_named(
      without_scales(reading.tensors), reading.keys, wanted,
      [&](const std::string& name, const at::Tensor& tensor) {
        if (!names.contains(name)) return;
        placing.place(name, tensor);
        auto map = maps.find(name);
        if (map != maps.end() && map->second->delta) map->second->delta->weight_changed(*map->second);
      },
      reading.what);
}

void store_weights(nn::Module& module, nn::WeightStore& store, c10::Device device) {
  for (auto& [name, map] : maps_of(module)) {
    if (auto source = store.store(name, map->weight, {}, device, map->weight.scalar_type())) map->set_source(source);
  }
}

namespace {

/// By our names.
std::map<std::string, c10::ScalarType> dtypes_in_file(const io::TensorSource* tensors, const io::KeyMap& keys) {
  std::map<std::string, c10::ScalarType> in_file;
  if (tensors == nullptr) return in_file;
  for (const auto& theirs : tensors->names()) {
    for (const auto& ours : keys.to_ours(theirs).ours) in_file[ours] = tensors->info(theirs).dtype;
  }
  return in_file;
}

}  // namespace

void place_shapes(nn::Module& skeleton, const io::TensorSource* tensors, const io::KeyMap& keys, nn::WeightStore* store,
                  const Merge* merge) {
  auto in_file = dtypes_in_file(tensors, keys);
  auto maps = maps_of(skeleton);
  for (auto& [name, parameter] : skeleton.parameters()) {
    auto map = maps.find(name);
    std::shared_ptr<nn::WeightSource> source;
    if (store != nullptr && map != maps.end()) {
      auto found = in_file.find(name);
      auto dtype = found == in_file.end() ? parameter->scalar_type() : found->second;
      bool changed = merge != nullptr && merge->touches(name);
      source = store->store(name, is_fp8(dtype) && !changed ? parameter->to(dtype) : *parameter, {}, parameter->device(), dtype);
    }
    if (source) map->second->set_source(source);
    else *parameter = at::empty_like(*parameter);
  }
}

StoragePlan plan_storage(nn::Module& on_meta, const io::TensorSource* tensors, const io::KeyMap& keys, const nn::WeightStore& store) {
  auto in_file = dtypes_in_file(tensors, keys);
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
