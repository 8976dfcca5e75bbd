#include "memory/body_table.h"

#include <c10/core/Storage.h>
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <typeinfo>
#include <utility>

#include "nn/by_tokens.h"
#include "nn/linear.h"
#include "nn/unlike.h"

namespace burnish::memory {

static void add_tensor(std::string& text, const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  text += text_of(geometry_of(tensor));
  text += fmt::format("{}{};", tensor.requires_grad() ? "g" : "", tensor.storage().nbytes());
}

/// Looks at a layer's source without having its weight come to the device.
static void add_layer(std::string& text, nn::LinearMap& layer) {
  auto before_read = std::exchange(layer.before_read, {});
  const auto& source = layer.source();
  if (before_read) text += "comes ";
  layer.before_read = std::move(before_read);
  text += typeid(source).name();
  for (const auto& tensor : source.tensors()) add_tensor(text, tensor);
  add_tensor(text, layer.bias);
  if (!layer.delta) return;
  const auto& delta = *layer.delta;
  text += typeid(delta).name();
}

std::string described(nn::Block& block, const TrainedTensors& trained) {
  std::string text;
  block.visit([&](const std::string& path, nn::Module& module) {
    text += fmt::format("\n{} {}", path, typeid(module).name());
    if (auto* layer = dynamic_cast<nn::LinearMap*>(&module)) add_layer(text, *layer);
    if (const auto* cut = dynamic_cast<const nn::GoesByTokens*>(&module)) text += fmt::format(" {}", cut->tokens_at_once);
    if (const auto* unlike = dynamic_cast<const nn::Unlike*>(&module)) text += unlike->differs_by();
  });
  block.visit_parameters([&](const std::string& path, at::Tensor& parameter) {
    text += path;
    add_tensor(text, parameter);
  });
  for (const auto& [name, tensor] : trained) {
    text += name;
    add_tensor(text, tensor);
  }
  return text;
}

std::vector<size_t> storages_of(const nn::Tensors& tensors, std::vector<c10::Storage>& storages) {
  std::vector<size_t> numbers;
  for (const auto& tensor : tensors) {
    if (!tensor.defined()) {
      numbers.push_back(0);
      continue;
    }
    const auto found = std::ranges::find_if(
        storages, [&](const auto& other) { return other.unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl(); });
    numbers.push_back(static_cast<size_t>(found - storages.begin()));
    if (found == storages.end()) storages.push_back(tensor.storage());
  }
  return numbers;
}

std::vector<int64_t> bases_of(const nn::Tensors& tensors, const std::vector<size_t>& which, size_t num_storages) {
  std::vector<int64_t> bases(num_storages, std::numeric_limits<int64_t>::max());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    auto& base = bases[which[i]];
    base = std::min(base, tensors[i].storage_offset() * static_cast<int64_t>(tensors[i].element_size()));
  }
  return bases;
}

std::string pattern_of(const nn::Tensors& tensors) {
  std::vector<c10::Storage> storages;
  const auto numbers = storages_of(tensors, storages);
  std::string text;
  const auto bases = bases_of(tensors, numbers, storages.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    text += '|';
    if (!tensors[i].defined()) continue;
    text += text_of(moved(geometry_of(tensors[i]), -bases[numbers[i]]));
    text += fmt::format("#{}{}", numbers[i], tensors[i].requires_grad() ? "g" : "");
  }
  return text;
}

}  // namespace burnish::memory
