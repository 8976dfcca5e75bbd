#include "convert/weights.h"

#include <ATen/ops/cat.h>

#include "adapters/targets.h"
#include "models/loading.h"

namespace burnish::convert {

bool is_fp8(c10::ScalarType dtype) { return dtype == at::kFloat8_e4m3fn || dtype == at::kFloat8_e5m2; }

bool has_weights(const models::Model& model, const std::string& component) {
  const auto& source = model.components().source(component);
  return source.tensors && !source.entry->is_sizes;
}

at::Tensor Stored::numbers() const {
  if (scale.defined()) return models::scaled(values, scale);
  return is_fp8(values.scalar_type()) ? values.to(at::kFloat) : values;
}

ComponentWeights::ComponentWeights(const models::Model& model, const std::string& component)
    : skeleton_(model.components().skeleton(component)), shapes_(models::shapes_of(*skeleton_)) {
  auto layers = adapters::all_layers(*skeleton_);
  layers_ = {layers.begin(), layers.end()};
  if (!has_weights(model, component)) return;
  const auto& source = model.components().source(component);
  tensors_ = models::without_scales(*source.tensors);
  io::check_named(*tensors_, source.keys, shapes_, source.entry->label);
  scales_ = models::scales_of(*source.tensors, source.keys, shapes_);
  for (const auto& theirs : tensors_->names()) {
    auto match = source.keys.to_ours(theirs);
    int64_t row = 0;
    for (const auto& ours : match.ours) {
      places_[ours] = {theirs, match.op, match.ours.size() > 1, row};
      row += shapes_.at(ours).empty() ? 0 : shapes_.at(ours)[0];
    }
  }
}

const nn::LinearMap* ComponentWeights::layer(const std::string& path) const {
  auto it = layers_.find(path);
  return it == layers_.end() ? nullptr : it->second;
}

Stored ComponentWeights::stored(const std::string& name) const {
  using Op = io::KeyRule::Op;
  const auto& place = places_.at(name);
  const auto& shape = shapes_.at(name);
  auto values = tensors_->tensor(place.theirs);
  if (place.is_part) values = values.narrow(0, place.row, shape[0]);
  if (place.op == Op::swap_halves) {
    auto halves = values.chunk(2, 0);
    auto bytes = [](const at::Tensor& t) { return t.element_size() == 1 ? t.view(at::kByte) : t; };  // libtorch joins no FP8 tensors
    values = at::cat({bytes(halves[1]), bytes(halves[0])}).view(values.scalar_type());
  }
  if (place.op == Op::transpose) values = values.t();
  const bool is_table = place.op == Op::stack_rows && !place.is_part;
  if (is_table || place.op == Op::reshape || place.op == Op::channels) values = values.reshape(shape);
  if (place.op == Op::last_frame && values.dim() == 5) values = values.select(2, -1);
  return {values, scale(name)};
}

c10::ScalarType ComponentWeights::dtype(const std::string& name) const { return tensors_->info(places_.at(name).theirs).dtype; }

at::Tensor ComponentWeights::scale(const std::string& name) const {
  auto it = scales_.find(name);
  return it != scales_.end() && is_fp8(dtype(name)) ? it->second : at::Tensor();
}

at::Tensor ComponentWeights::matrix(const std::string& path) const {
  return parameter(path + ".weight").to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).flatten(1).contiguous();
}

void ComponentWeights::release(const std::string& name) const {
  if (auto it = places_.find(name); it != places_.end()) tensors_->release(it->second.theirs);
}

}  // namespace burnish::convert
