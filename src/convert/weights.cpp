#include "convert/weights.h"

#include "adapters/targets.h"
#include "models/files/coding.h"
#include "models/files/loading.h"

namespace burnish::convert {

bool has_weights(const models::Model& model, const std::string& component) {
  const auto& source = model.components().source(component);
  return source.tensors && !source.entry->is_sizes;
}

ComponentWeights::ComponentWeights(const models::Model& model, const std::string& component)
    : skeleton_(model.components().skeleton(component)), shapes_(models::shapes_of(*skeleton_)) {
  auto layers = adapters::all_layers(*skeleton_);
  layers_ = {layers.begin(), layers.end()};
  if (!has_weights(model, component)) return;
  const auto& source = model.components().source(component);
  tensors_ = *source.tensors;
  keys_ = source.keys;
  io::check_named(*tensors_, keys_, shapes_, source.entry->label);
  for (const auto& theirs : tensors_->names()) {
    for (const auto& ours : keys_.to_ours(theirs).ours) places_[ours] = theirs;
  }
}

const nn::LinearMap* ComponentWeights::layer(const std::string& path) const {
  auto it = layers_.find(path);
  return it == layers_.end() ? nullptr : it->second;
}

io::InFile ComponentWeights::stored(const std::string& name) const {
  return io::load_from(*tensors_, places_.at(name), keys_, shapes_).at(name);
}

const io::TensorInfo& ComponentWeights::info(const std::string& name) const { return tensors_->info(places_.at(name)); }

at::Tensor ComponentWeights::parameter(const std::string& name) const {
  auto in_file = stored(name);
  return in_file.codes ? models::numbers_of(*in_file.codes) : in_file.numbers;
}

at::Tensor ComponentWeights::matrix(const std::string& path) const {
  return parameter(path + ".weight").to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).flatten(1).contiguous();
}

void ComponentWeights::release(const std::string& name) const {
  if (auto it = places_.find(name); it != places_.end()) tensors_->release(it->second);
}

}  // namespace burnish::convert
