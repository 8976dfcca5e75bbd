#include "loras/merged.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "adapters/adapter_config.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "loras/lora_file.h"

namespace burnish::loras {

namespace {

/// The adapters of all files for one component.
class MergedAdapters final : public models::Merge {
 public:
  void add(const LoraFile& file, const std::vector<adapters::AdapterWeights>& weights) {
    for (const auto& part : adapters::find_adapter(file.path).files()) files_.push_back(part);
    settings_ += fmt::format("{}at {}", settings_.empty() ? "" : ", ", file.strength);
    for (const auto& w : weights)
      by_parameter_[adapters::parameter_of(w)].push_back({w, file.strength, adapters::sharing_norms(w, weights)});
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

using Merges = std::map<std::string, std::shared_ptr<MergedAdapters>>;

std::map<std::string, std::shared_ptr<const models::Merge>> merges_of(models::Model& model) {
  std::map<std::string, std::shared_ptr<const models::Merge>> merges;
  for (const auto& [component, names] : model.names().components) {
    if (auto merge = model.components().holding(component).merge) merges[component] = merge;
  }
  return merges;
}

/// With the other file of each pair of which one is named.
std::vector<LoraFile> whole_pairs(models::Model& model, const std::vector<LoraFile>& files) {
  auto all = files;
  std::vector<std::string> paths;
  for (const auto& file : files) paths.push_back(file.path);
  for (const auto& sibling : siblings(model, paths)) {
    const auto& file = files[sibling.beside];
    info("{}: {} lies beside it, for another expert, and is merged too", file.path, sibling.path);
    all.push_back({sibling.path, file.strength});
  }
  return all;
}

}  // namespace

LoraFile parse_lora_file(const std::string& text) {
  auto colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text)) return {text};
  try {
    size_t used = 0;
    auto strength = std::stod(text.substr(colon + 1), &used);
    if (used == text.size() - colon - 1) return {text.substr(0, colon), strength};
  } catch (const std::exception&) {
  }
  return {text};
}

void merge(models::Model& model, const std::vector<LoraFile>& files, const MergeOptions& options) {
  Merges merges;
  for (const auto& file : whole_pairs(model, files)) {
    for (const auto& [component, weights] : read(model, file.path, options.may_lack_components ? Absent::unchecked : Absent::refused)) {
      if (!options.components.empty() && !contains(options.components, component)) continue;
      auto& merged = merges[component];
      if (!merged) merged = std::make_shared<MergedAdapters>();
      merged->add(file, weights);
      info("{}: {} layers of {} at strength {}", file.path, weights.size(), component, file.strength);
    }
  }
  for (const auto& component : options.components) {
    if (!merges.contains(component))
      config_error("loras", "{} is to have LoRAs merged into it, and none of their files adapts it", component);
  }
  for (const auto& [component, merged] : merges) model.components().set_merge(component, merged);
}

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
