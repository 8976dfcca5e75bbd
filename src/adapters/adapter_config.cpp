#include "adapters/adapter_config.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_error.h"
#include "base/number.h"
#include "io/files.h"
#include "io/json.h"

namespace burnish::adapters {

namespace {

const char* const kConfigName = "adapter_config.json";
const char* const kMetadataName = "lora_adapter_metadata";
/// Of a series in powers of a small matrix, of which peft takes five.
constexpr int64_t kMostTerms = 100;
const std::string kPeftPrefix = "base_model.model.";

/// The value of the first of `names` that is there and not null.
const nlohmann::json* first_of(const nlohmann::json& json, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (auto it = json.find(name); it != json.end() && !it->is_null()) return &*it;
  }
  return nullptr;
}

}  // namespace

std::vector<std::filesystem::path> AdapterPlace::files() const {
  return config.empty() ? std::vector{tensors} : std::vector{tensors, config};
}

AdapterPlace find_adapter(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    auto config = path.parent_path() / kConfigName;
    return {path, path.stem() == "adapter_model" && io::is_there(config) ? config : ""};
  }
  for (const char* name : {"adapter_model.safetensors", "adapter_model.bin", "pytorch_lora_weights.safetensors"}) {
    if (std::filesystem::is_regular_file(path / name, ignored)) return find_adapter(path / name);
  }
  data_error("adapters",
             "the folder {} holds no LoRA: neither adapter_model.safetensors nor pytorch_lora_weights.safetensors; "
             "name the file itself, of a run one of its step-N.safetensors",
             path.string());
}

double LayerConfig::scale() const { return alpha / (use_rslora ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank)); }

AdapterConfigs::AdapterConfigs(const AdapterPlace& place, const std::map<std::string, std::string>& metadata)
    : file_(place.config.empty() ? place.tensors.string() : place.config.string()) {
  if (!place.config.empty()) {
    by_component_[""] = parse(io::read_json(place.config));
    return;
  }
  read_network_args(metadata);
  auto it = metadata.find(kMetadataName);
  if (it == metadata.end()) return;
  auto all = nlohmann::json::parse(it->second, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object()) data_error("adapters", "{}: its {} is not a JSON object", file_, kMetadataName);
  std::map<std::string, nlohmann::json> by_component;
  for (const auto& [key, value] : all.items()) {
    auto dot = key.find('.');
    by_component[dot == key.npos ? "" : key.substr(0, dot)][key.substr(dot == key.npos ? 0 : dot + 1)] = value;
  }
  for (const auto& [component, json] : by_component) by_component_[component] = parse(json);
}

AdapterConfigs::Config AdapterConfigs::parse(const nlohmann::json& json) const {
  Config config;
  try {
    if (const auto* rank = first_of(json, {"r"})) config.all.rank = rank->get<int64_t>();
    const auto* alpha = first_of(json, {"lora_alpha", "alpha"});
    config.all.alpha = alpha ? alpha->get<double>() : static_cast<double>(config.all.rank);
    if (const auto* use = first_of(json, {"use_rslora"})) config.all.use_rslora = use->get<bool>();
    if (const auto* use = first_of(json, {"use_dora"})) config.all.use_dora = use->get<bool>();
    if (const auto* terms = first_of(json, {"num_cayley_neumann_terms"})) config.oft.num_terms = terms->get<int64_t>();
    if (config.oft.num_terms < 1 || config.oft.num_terms > kMostTerms)
      data_error("adapters", "its num_cayley_neumann_terms are {}, and can be 1 to {}", *config.oft.num_terms, kMostTerms);
    if (const auto* use = first_of(json, {"use_cayley_neumann"}); use && !use->get<bool>()) config.oft.num_terms.reset();
    if (const auto* use = first_of(json, {"coft"}); use && use->get<bool>()) config.oft.eps = json.value("eps", 6e-5);
    config.ranks = patterns(json, "rank_pattern");
    config.alphas = patterns(json, "alpha_pattern");
  } catch (const nlohmann::json::exception& error) {
    data_error("adapters", "{}: the settings of its LoRA cannot be read: {}", file_, without_source(error));
  } catch (const Error& error) {
    data_error("adapters", "{}: {}", file_, without_source(error));
  }
  if (const auto* start = first_of(json, {"init_lora_weights"}); start && start->is_string()) {
    auto word = start->get<std::string>();
    for (const char* relative : {"pissa", "olora", "corda", "loftq"}) {
      if (word.starts_with(relative))
        data_error("adapters",
                   "{}: this LoRA is relative to a base that {} changed; convert it with peft's path_initial_model_for_weight_conversion",
                   file_, word);
    }
  }
  return config;
}

std::vector<AdapterConfigs::PatternNumber> AdapterConfigs::patterns(const nlohmann::json& json, const char* name) {
  std::vector<PatternNumber> patterns;
  const auto* found = first_of(json, {name});
  if (found == nullptr) return patterns;
  for (const auto& [text, number] : found->get<std::map<std::string, double>>())
    patterns.push_back({text, Pattern("adapters", name, "(.*\\.)?(" + text + ")"), number});
  return patterns;
}

/// The first that matches counts; peft and diffusers write them sorted.
std::optional<double> AdapterConfigs::matched(const std::vector<PatternNumber>& patterns, const std::string& name) {
  for (const auto& pattern : patterns) {
    // The text as it stands matches too: the brackets of a name are no regular expression.
    if (name == pattern.text || name.ends_with("." + pattern.text) || pattern.end_of_name.matches(name)) return pattern.number;
  }
  return std::nullopt;
}

std::pair<const AdapterConfigs::Config*, std::string> AdapterConfigs::of(const std::string& layer) const {
  auto dot = layer.find('.');
  auto it = dot == layer.npos ? by_component_.end() : by_component_.find(layer.substr(0, dot));
  auto path = it == by_component_.end() ? layer : layer.substr(dot + 1);
  if (it == by_component_.end()) it = by_component_.find("");
  if (path.starts_with(kPeftPrefix)) path = path.substr(kPeftPrefix.size());
  return {it == by_component_.end() ? nullptr : &it->second, path};
}

std::optional<LayerConfig> AdapterConfigs::find(const std::string& layer) const {
  auto [config, path] = of(layer);
  if (config == nullptr || config->all.rank < 1) return std::nullopt;
  auto found = config->all;
  if (auto rank = matched(config->ranks, path)) found.rank = static_cast<int64_t>(*rank);
  if (auto alpha = matched(config->alphas, path)) found.alpha = *alpha;
  return found;
}

OftConfig AdapterConfigs::oft(const std::string& layer) const {
  auto [config, path] = of(layer);
  return config == nullptr ? OftConfig() : config->oft;
}

/// sd-scripts writes the arguments of a network as JSON, with all values as texts.
void AdapterConfigs::read_network_args(const std::map<std::string, std::string>& metadata) {
  auto module = metadata.find("ss_network_module"), args = metadata.find("ss_network_args");
  if (module == metadata.end() || args == metadata.end() || !module->second.starts_with("lycoris")) return;
  auto json = nlohmann::json::parse(args->second, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("algo", nlohmann::json()) != "dylora") return;
  auto block = json.value("block_size", nlohmann::json("4"));
  dylora_block_ = block.is_number()   ? block.get<int64_t>()
                  : block.is_string() ? parse_number<int64_t>(block.get<std::string>()).value_or(0)
                                      : 0;
  if (*dylora_block_ < 1) data_error("adapters", "{}: block_size in its ss_network_args must be a whole number above 0", file_);
}

}  // namespace burnish::adapters
