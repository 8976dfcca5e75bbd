#include "loras/merged.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <utility>

#include "adapters/adapter_config.h"
#include "adapters/adapter_file.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "loras/lora_file.h"

namespace burnish::loras {

namespace {

/// The adapters of all files for one component.
class MergedAdapters final : public models::Merge {
 public:
  /// Has a factor on the file's strength for each of the weights.
  void add(const LoraFile& file, const std::vector<adapters::AdapterWeights>& weights, const std::vector<double>& factors) {
    for (const auto& part : adapters::find_adapter(file.path).files()) files_.push_back(part);
    settings_ += fmt::format("{}at {}", settings_.empty() ? "" : ", ", file.strength);
    if (file.layers.is_given()) settings_ += fmt::format(" times {}", file.layers.text());
    for (size_t i = 0; i < weights.size(); ++i) {
      if (factors[i] == 0) continue;
      by_parameter_[adapters::parameter_of(weights[i])].push_back(
          {weights[i], file.strength * factors[i], adapters::sharing_norms(weights[i], weights)});
    }
  }

  bool touches(const std::string& name) const override { return by_parameter_.contains(name); }
  void apply(const std::string& name, nn::LinearMap& layer, const ParameterOf& parameter_of) const override {
    adapters::merge(layer, by_parameter_.at(name), [&](const std::string& path) { return parameter_of(path + ".weight"); });
  }
  std::vector<std::filesystem::path> files() const override { return files_; }
  std::string settings() const override { return settings_; }

 private:
  std::vector<std::filesystem::path> files_;
  std::string settings_;
  std::map<std::string, std::vector<adapters::WeightsAtStrength>> by_parameter_;  ///< in the order of the files
};

std::map<std::string, std::shared_ptr<const models::Merge>> merges_of(models::Model& model) {
  std::map<std::string, std::shared_ptr<const models::Merge>> merges;
  for (const auto& [component, names] : model.names().components) {
    if (auto merge = model.components().holding(component).merge) merges[component] = merge;
  }
  return merges;
}

/// A file, which of those that were named has its strength (itself, or the other one of its pair), and that one's factors for layers.
struct PlacedFile {
  std::string path;
  size_t named;
  LayerStrengths layers;
};

/// Adds the other file of each pair of which one is named.
std::vector<PlacedFile> whole_pairs(models::Model& model, const std::vector<LoraFile>& files) {
  std::vector<PlacedFile> all;
  std::vector<std::string> paths;
  for (const auto& file : files) {
    all.push_back({file.path, paths.size(), file.layers});
    paths.push_back(file.path);
  }
  for (const auto& sibling : siblings(model, paths)) {
    info("{}: {} lies beside it, for another expert, and is merged too", paths[sibling.beside], sibling.path);
    all.push_back({sibling.path, sibling.beside, files[sibling.beside].layers});
  }
  return all;
}

/// Whether an adapter leaves its layer as it is, as one that was never trained. Of magnitudes the layer's weight would tell it.
bool changes_nothing(const adapters::AdapterWeights& weights) {
  const bool turns = weights.kind == adapters::Kind::oft && !weights.magnitude.m.defined();
  return adapters::is_zero(weights) ||
         (turns && std::ranges::none_of(weights.parameters, [](const auto& p) { return p.second.any().template item<bool>(); }));
}

void warn_of_zeros(const std::string& file, const AdaptersByComponent& all) {
  size_t num_layers = 0, num_zero = 0;
  for (const auto& [component, weights] : all) {
    num_layers += weights.size();
    num_zero += static_cast<size_t>(std::ranges::count_if(weights, changes_nothing));
  }
  if (num_zero > 0)
    warn("{}: {} of {} adapters hold zeros, and leave their layers as they are: nothing was trained there", file, num_zero, num_layers);
}

}  // namespace

/// Holds what a file has for each component.
struct Merged::Read {
  PlacedFile file;
  AdaptersByComponent adapters;
  LayerStrengths::ByComponent factors;
};

LoraFile parse_lora_file(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text)) return {text};
  const auto before = text.substr(0, colon), behind = text.substr(colon + 1);
  if (const auto strength = parse_any_number<double>(behind)) return {before, *strength};
  if (auto layers = LayerStrengths::parse(behind)) {
    auto file = parse_lora_file(before);
    return {file.path, file.strength, *layers};
  }
  return {text};
}

std::string text_of(const LoraFile& file) {
  auto text = file.path;
  if (file.strength != 1) text += fmt::format(":{}", file.strength);
  if (file.layers.is_given()) text += ":" + file.layers.text();
  return text;
}

Merged::Merged(models::Model& model, const std::vector<LoraFile>& files, const MergeOptions& options) : model_(model) {
  for (const auto& file : files) strengths_.push_back(file.strength);
  std::set<std::string> adapted;
  for (const auto& file : whole_pairs(model, files)) {
    auto all = read(model, file.path, options.may_lack_components ? Absent::unchecked : Absent::refused);
    if (!options.components.empty()) std::erase_if(all, [&](const auto& item) { return !contains(options.components, item.first); });
    for (const auto& [component, weights] : all) {
      adapted.insert(component);
      info("{}: {} layers of {} at strength {}", file.path, weights.size(), component, strengths_[file.named]);
    }
    warn_of_zeros(file.path, all);
    auto factors = file.layers.of(model, all, file.path);
    read_.push_back({file, std::move(all), std::move(factors)});
  }
  for (const auto& component : options.components) {
    if (!adapted.contains(component))
      config_error("loras", "{} is to have LoRAs merged into it, and none of their files adapts it", component);
  }
  apply();
}

Merged::~Merged() = default;

void Merged::set_strengths(const std::vector<double>& strengths) {
  if (strengths.size() != strengths_.size()) throw std::logic_error("a strength for each file that was named");
  if (strengths == strengths_) return;
  strengths_ = strengths;
  apply();
}

void Merged::apply() {
  std::map<std::string, std::shared_ptr<MergedAdapters>> merges;
  for (const auto& [file, adapters, factors] : read_) {
    for (const auto& [component, weights] : adapters) {
      auto& merged = merges[component];  // where all files are at 0 it changes no layer
      if (!merged) merged = std::make_shared<MergedAdapters>();
      if (strengths_[file.named] != 0) merged->add({file.path, strengths_[file.named], file.layers}, weights, factors.at(component));
    }
  }
  for (const auto& [component, merged] : merges) model_.components().set_merge(component, merged);
}

void merge(models::Model& model, const std::vector<LoraFile>& files, const MergeOptions& options) { Merged(model, files, options); }

bool has_merged(models::Model& model) { return !merges_of(model).empty(); }

void without_merged(models::Model& model, const std::function<void()>& fn) {
  auto merges = merges_of(model);
  auto put_back = [&] {
    for (const auto& [component, merge] : merges) model.components().set_merge(component, merge);
  };
  try {
    for (const auto& [component, merge] : merges) model.components().set_merge(component, nullptr);
    fn();
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
}

}  // namespace burnish::loras
