#include "adapters/lora_file.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include <optional>

#include "base/error.h"

namespace burnish::adapters {

namespace {

enum class Part { a, b, alpha };

/// A key's layer name and which part of the LoRA it is.
std::optional<std::pair<std::string, Part>> split_key(const std::string& key) {
  static const std::vector<std::pair<std::string, Part>> kEndings{
      {".lora_A.weight", Part::a},    {".lora_A.default.weight", Part::a}, {".lora_down.weight", Part::a},
      {".lora.down.weight", Part::a}, {".lora_B.weight", Part::b},         {".lora_B.default.weight", Part::b},
      {".lora_up.weight", Part::b},   {".lora.up.weight", Part::b},        {".alpha", Part::alpha}};
  for (const auto& [ending, part] : kEndings) {
    if (key.ends_with(ending)) return std::pair(key.substr(0, key.size() - ending.size()), part);
  }
  return std::nullopt;
}

std::string without_prefix(const std::string& name) {
  for (const char* prefix : {"base_model.model.", "transformer.", "diffusion_model.", "pipe.dit.", "dit."}) {
    if (name.starts_with(prefix)) return name.substr(std::string_view(prefix).size());
  }
  return name;
}

struct Parts {
  at::Tensor a, b;
  std::optional<double> alpha;
};

}  // namespace

bool is_lora(const io::TensorSource& source) {
  for (const auto& name : source.names()) {
    if (auto key = split_key(name); key && key->second == Part::b) return true;
  }
  return false;
}

std::vector<LoraWeights> read_lora(const std::filesystem::path& path, const LayersOf& layers_of,
                                   const std::function<int64_t(const std::string&)>& rows_of) {
  auto source = io::TensorSource::open({path});
  auto file = path.string();
  std::map<std::string, Parts> by_layer;
  for (const auto& name : source.names()) {
    auto key = split_key(name);
    if (!key) data_error("adapters", "{}: '{}' is not a key of a LoRA; is this a whole model?", file, name);
    auto& parts = by_layer[key->first];
    auto tensor = source.tensor(name);
    if (key->second == Part::alpha) {
      if (tensor.numel() != 1) data_error("adapters", "{}: '{}' must be one number", file, name);
      parts.alpha = tensor.to(at::kDouble).item<double>();
    } else {
      if (tensor.dim() != 2) data_error("adapters", "{}: '{}' must be a matrix", file, name);
      (key->second == Part::a ? parts.a : parts.b) = tensor;
    }
  }

  std::vector<LoraWeights> weights;
  for (const auto& [name, parts] : by_layer) {
    if (!parts.a.defined() || !parts.b.defined())
      data_error("adapters", "{}: the LoRA of '{}' lacks its {} matrix", file, name, parts.a.defined() ? "B (up)" : "A (down)");
    if (parts.a.size(0) != parts.b.size(1))
      data_error("adapters", "{}: the LoRA of '{}' has rank {} in A and {} in B", file, name, parts.a.size(0), parts.b.size(1));
    auto plain = without_prefix(name);
    auto alpha = parts.alpha.value_or(static_cast<double>(parts.a.size(0)));
    auto layers = layers_of(plain);
    if (layers.size() < 2) {
      weights.push_back({layers.empty() ? plain : layers[0], parts.a, parts.b, alpha});
      continue;
    }
    int64_t row = 0;
    for (const auto& layer : layers) {
      auto rows = rows_of(layer);
      if (row + rows > parts.b.size(0))
        data_error("adapters", "{} is a LoRA for another model: '{}' has {} outputs there, more here", file, name, parts.b.size(0));
      weights.push_back({layer, parts.a, parts.b.narrow(0, row, rows), alpha});
      row += rows;
    }
  }
  if (weights.empty()) data_error("adapters", "{} holds no LoRA", file);
  return weights;
}

io::NamedTensors lora_tensors(const AdaptedList& adapted, const std::string& prefix, c10::ScalarType dtype) {
  io::NamedTensors tensors;
  for (const auto& item : adapted) {
    auto name = prefix + item.path;
    tensors.emplace_back(name + ".lora_A.weight", item.lora->a().detach().to(dtype));
    tensors.emplace_back(name + ".lora_B.weight", item.lora->b().detach().to(dtype));
    tensors.emplace_back(name + ".alpha", at::full({}, item.lora->alpha(), at::TensorOptions().dtype(at::kFloat)));
  }
  return tensors;
}

}  // namespace burnish::adapters
