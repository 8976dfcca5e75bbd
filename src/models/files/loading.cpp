#include "models/files/loading.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/dtype.h"
#include "base/input_error.h"
#include "models/files/coding.h"

namespace burnish::models {

namespace {

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

io::Shapes shapes_of(nn::Module& module) {
  io::Shapes shapes;
  module.visit_parameters([&](const std::string& name, at::Tensor& p) { shapes[name] = p.sizes().vec(); });
  return shapes;
}

namespace {

at::Tensor numbers_in(const io::InFile& in_file) { return in_file.codes ? numbers_of(*in_file.codes) : in_file.numbers; }

/// Puts what is read into a module, tensor by tensor.
class Placing {
 public:
  Placing(nn::Module& module, const io::Shapes& wanted, const Reading& reading)
      : reading_(reading), wanted_(wanted), slots_(module.parameters()), maps_(maps_of(module)) {}

  void place(const std::string& name, const io::InFile& in_file) const {
    nn::FileWeight weight{.numbers = in_file.numbers, .codes = in_file.codes};
    auto map = maps_.find(name);
    if (reading_.merge && reading_.merge->touches(name)) {
      if (in_file.codes) weight.in_file = in_file.codes->kind;
      weight.numbers = merged(name, map == maps_.end() ? nullptr : map->second->product(), numbers_in(in_file));
      weight.codes.reset();
    }
    if (reading_.store && map != maps_.end()) {
      if (auto source = reading_.store->store(name, weight, reading_.options.device())) return map->second->set_source(source);
    }
    auto value = weight.codes ? numbers_of(*weight.codes) : weight.numbers;
    auto& slot = *slots_.at(name);
    // The dtype is the one that the module made it with, which may be wider than the run's.
    slot = value.to(reading_.options.dtype(slot.scalar_type()), /*non_blocking=*/false, /*copy=*/true).contiguous();
    check_finite(slot, value, name, reading_.what);
  }

 private:
  /// Returns a weight as a matrix or kernels in fp32, which is what it is computed with.
  at::Tensor exact(const at::Tensor& in_file) const {
    auto value = in_file.to(reading_.options.dtype(at::kFloat), false, /*copy=*/true);
    return value.dim() == 1 ? value.unsqueeze(1) : value.contiguous();
  }

  /// Makes what a parameter becomes: the weight of a layer with this product, or without one what is changed number by number.
  at::Tensor merged(const std::string& name, const kernels::ProductPtr& product, const at::Tensor& in_file) const {
    auto value = exact(in_file);
    if (!product) value = value.reshape({-1, 1});
    nn::LinearMap alone(value, product ? product : kernels::matrix_product());
    if (!is_finite(alone.weight)) refuse_damaged(name, reading_.what);
    reading_.merge->apply(name, alone, [&](const std::string& other) {
      return exact(numbers_in(io::load_one(reading_.tensors, reading_.keys, wanted_, other)));
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
};

}  // namespace

void load_weights(nn::Module& module, const Reading& reading, const std::function<void()>& placed) {
  auto wanted = shapes_of(module);
  Placing placing(module, wanted, reading);
  io::load_named(
      reading.tensors, reading.keys, wanted,
      [&](const std::string& name, const io::InFile& in_file) {
        placing.place(name, in_file);
        if (placed) placed();
      },
      reading.what);
}

void reload_weights(nn::Module& module, nn::Module& skeleton, const std::set<std::string>& names, const Reading& reading) {
  auto wanted = shapes_of(skeleton);
  auto maps = maps_of(module);
  Placing placing(module, wanted, reading);
  io::load_named(
      reading.tensors, reading.keys, wanted,
      [&](const std::string& name, const io::InFile& in_file) {
        if (!names.contains(name)) return;
        placing.place(name, in_file);
        auto map = maps.find(name);
        if (map != maps.end() && map->second->delta) map->second->delta->weight_changed(*map->second);
      },
      reading.what);
}

void share_weights(nn::Module& module, nn::Module& of) {
  const auto maps = maps_of(of);
  for (auto& [name, map] : maps_of(module)) map->share(*maps.at(name));
  const auto parameters = of.parameters();
  module.visit_parameters([&](const std::string& path, at::Tensor& p) { p = *parameters.at(path); });
}

void store_weights(nn::Module& module, nn::WeightStore& store, c10::Device device) {
  for (auto& [name, map] : maps_of(module)) {
    if (auto source = store.store(name, {.numbers = map->weight}, device)) map->set_source(source);
  }
}

namespace {

/// Makes what a module's weights are on their way into a store, without numbers.
class WeightsOnMeta {
 public:
  WeightsOnMeta(nn::Module& skeleton, const io::TensorSource* tensors, const io::KeyMap& keys, const Merge* merge)
      : codes_(tensors ? io::codes_in_our_names(*tensors, keys, shapes_of(skeleton)) : std::map<std::string, Codes>()), merge_(merge) {}
  nn::FileWeight of(const std::string& name, const at::Tensor& parameter) const {
    const auto codes = codes_.find(name);
    if (codes == codes_.end()) return {.numbers = parameter};
    if (merge_ != nullptr && merge_->touches(name)) return {.numbers = parameter, .in_file = codes->second.kind};
    return {.codes = codes->second};
  }

 private:
  std::map<std::string, Codes> codes_;
  const Merge* merge_;
};

/// Puts weights without numbers into a module, one at a time.
class PlacingShapes {
 public:
  PlacingShapes(nn::Module& skeleton, const io::TensorSource* tensors, const io::KeyMap& keys, nn::WeightStore* store, const Merge* merge)
      : weights_(skeleton, tensors, keys, merge), store_(store), slots_(skeleton.parameters()), maps_(maps_of(skeleton)) {}

  void place(const std::string& name) const {
    auto& parameter = *slots_.at(name);
    const auto map = maps_.find(name);
    std::shared_ptr<nn::WeightSource> source;
    if (store_ != nullptr && map != maps_.end()) source = store_->store(name, weights_.of(name, parameter), parameter.device());
    if (source) map->second->set_source(source);
    else parameter = at::empty_like(parameter);
  }
  void place_all() const {
    for (const auto& [name, parameter] : slots_) place(name);
  }

 private:
  WeightsOnMeta weights_;
  nn::WeightStore* store_;
  std::map<std::string, at::Tensor*> slots_;
  std::map<std::string, nn::LinearMap*> maps_;
};

}  // namespace

void place_shapes(nn::Module& skeleton, const io::TensorSource* tensors, const io::KeyMap& keys, nn::WeightStore* store,
                  const Merge* merge) {
  PlacingShapes(skeleton, tensors, keys, store, merge).place_all();
}

/// The last piece is what lies in none of the modules.
struct WeightPieces::Inside {
  Inside(nn::Module& module, std::unique_ptr<nn::Module> made_alike, Reading how)
      : bare(std::move(made_alike)), reading(std::move(how)), wanted(shapes_of(module)) {
    if (reading.options.device().is_meta()) shapes.emplace(module, &reading.tensors, reading.keys, reading.store, reading.merge);
    else numbers.emplace(module, wanted, reading);
  }
  void read(size_t piece) const {
    for (const auto& theirs : in_files.at(piece)) {
      const auto ours = reading.keys.to_ours(theirs).ours;
      if (shapes) {
        for (const auto& name : ours) shapes->place(name);
        continue;
      }
      const auto parts = io::load_from(reading.tensors, theirs, reading.keys, wanted);
      for (const auto& name : ours) numbers->place(name, parts.at(name));
      reading.tensors.release(theirs);
    }
  }

  std::unique_ptr<nn::Module> bare;
  Reading reading;
  io::Shapes wanted;
  std::optional<Placing> numbers;
  std::optional<PlacingShapes> shapes;
  std::vector<nn::Module*> within = {}, bare_within = {};
  std::vector<std::vector<std::string>> in_files = {};  ///< by piece, names in the files
};

WeightPieces::WeightPieces(nn::Module& module, std::unique_ptr<nn::Module> bare, Reading reading, const std::vector<nn::Module*>& within)
    : inside_(std::make_unique<Inside>(module, std::move(bare), std::move(reading))) {
  std::map<const nn::Module*, std::string> paths;
  std::map<std::string, nn::Module*> bare_by_path;
  module.visit([&](const std::string& path, nn::Module& child) { paths[&child] = path; });
  inside_->bare->visit([&](const std::string& path, nn::Module& child) { bare_by_path[path] = &child; });
  std::map<std::string, size_t> pieces;  // by names of parameters, since names below that of a module may be of others
  for (size_t number = 0; number < within.size(); ++number) {
    const auto& path = paths.at(within[number]);
    within[number]->visit_parameters([&](const std::string& name, at::Tensor&) { pieces[path + "." + name] = number; });
    inside_->bare_within.push_back(bare_by_path.at(path));
  }
  inside_->within = within;
  inside_->in_files.resize(within.size() + 1);
  const auto& from = inside_->reading;
  for (const auto& theirs : from.tensors.names()) {
    const auto piece = pieces.find(from.keys.to_ours(theirs).ours[0]);
    inside_->in_files[piece == pieces.end() ? within.size() : piece->second].push_back(theirs);
  }
}

WeightPieces::~WeightPieces() = default;

void WeightPieces::read_rest() { inside_->read(inside_->within.size()); }

void WeightPieces::read(size_t number) { inside_->read(number); }

void WeightPieces::give_up(size_t number) { share_weights(*inside_->within.at(number), *inside_->bare_within.at(number)); }

StoragePlan plan_storage(nn::Module& on_meta, const io::TensorSource* tensors, const io::KeyMap& keys, const nn::WeightStore& store,
                         const Merge* merge) {
  const WeightsOnMeta weights(on_meta, tensors, keys, merge);
  StoragePlan plan;
  auto maps = maps_of(on_meta);
  on_meta.visit_parameters([&](const std::string& name, at::Tensor& p) {
    int64_t bytes = -1;
    if (maps.contains(name)) {
      const auto weight = weights.of(name, p);
      bytes = store.num_bytes(name, weight);
      const auto kind = weight.codes ? std::optional(weight.codes->kind) : weight.in_file;
      if (kind && bytes >= 0) plan.codes.emplace(code_block(*kind).name);
      (bytes < 0 ? plan.num_kept : plan.num_stored) += 1;
    }
    plan.elements += p.numel();
    plan.stored_elements += bytes < 0 ? 0 : p.numel();
    plan.num_bytes += bytes < 0 ? static_cast<int64_t>(p.nbytes()) : bytes;
  });
  return plan;
}

}  // namespace burnish::models
