#include "loras/file_metadata.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/registry.h"

namespace burnish::loras {

namespace {

/// sd-scripts has one number, or this word.
std::string one_number(const std::string& numbers) { return numbers.find('/') == numbers.npos ? numbers : "Dynamic"; }

/// Tells whether they are what sd-scripts' own networks have; others are LyCORIS'.
bool is_plain(const std::string& types) { return types == "lora" || types == "dora" || types == "lora/dora" || types == "dora/lora"; }

io::Metadata said_of(const AdapterTotals& totals) {
  io::Metadata metadata = {{"adapter", totals.type},
                           {"rank", totals.ranks},
                           {"alpha", totals.alphas},
                           {"ss_network_module", is_plain(totals.type) ? "networks.lora" : "lycoris.kohya"},
                           {"ss_network_dim", one_number(totals.ranks)},
                           {"ss_network_alpha", one_number(totals.alphas)}};
  if (totals.type == "lora") return metadata;
  const auto args = is_plain(totals.type) ? nlohmann::json{{"dora_wd", "True"}} : nlohmann::json{{"algo", totals.type}};
  metadata["ss_network_args"] = args.dump();
  return metadata;
}

}  // namespace

io::Metadata model_metadata(const models::Names& names) {
  const auto& words = names.file_words;
  io::Metadata metadata = {
      {"modelspec.sai_model_spec", "1.0.1"},
      {"modelspec.architecture", words.architecture.empty() ? names.variant : words.architecture},
      {"modelspec.implementation", words.implementation.empty() ? "https://github.com/huggingface/diffusers" : words.implementation},
      {"ss_v2", "False"},
  };
  if (!words.base_version.empty()) metadata["ss_base_model_version"] = words.base_version;
  metadata.insert(words.prediction.begin(), words.prediction.end());
  const auto families = models::all_families();
  const auto family = std::ranges::find(families, names.family, [](const models::Family* one) { return std::string(one->name); });
  if (family != families.end() && !(*family)->license.name.empty()) {
    metadata["modelspec.license"] = (*family)->license.name;
    metadata["license_link"] = (*family)->license.link;
    metadata["license_notice"] = (*family)->license.notice;
  }
  return metadata;
}

io::Metadata adapter_metadata(const models::Names& names, const AdapterTotals& totals) {
  auto metadata = model_metadata(names);
  metadata["modelspec.architecture"] += "/lora";
  metadata.merge(said_of(totals));
  return metadata;
}

void restate(io::Metadata& metadata, const AdapterTotals& totals) {
  // Numbers of adapters stand in the tensors, or in peft's own file; DyLoRA's block would count twice.
  for (const char* key : {"lora_adapter_metadata", "ss_network_args", "dora_norm"}) metadata.erase(key);
  auto now = said_of(totals);
  auto module = metadata.find("ss_network_module");
  const bool names_module = module != metadata.end();
  if (names_module && is_plain(totals.type) && !module->second.starts_with("lycoris")) now.erase("ss_network_module");
  for (const auto& [key, value] : now) {
    if (metadata.contains(key) || (key == "ss_network_args" && names_module)) metadata[key] = value;
  }
}

bool drop_sums(io::Metadata& metadata) {
  size_t count = 0;
  for (const char* key : {"sshs_model_hash", "sshs_legacy_hash", "modelspec.hash_sha256"}) count += metadata.erase(key);
  return count > 0;
}

void add_sums(io::Metadata& metadata, const io::NamedTensors& tensors) {
  const auto sum = io::tensors_sha256(tensors);
  metadata["modelspec.hash_sha256"] = "0x" + sum;
  metadata["sshs_model_hash"] = sum;
}

void renew_sums(io::Metadata& metadata, const io::NamedTensors& tensors) {
  if (drop_sums(metadata)) add_sums(metadata, tensors);
}

}  // namespace burnish::loras
