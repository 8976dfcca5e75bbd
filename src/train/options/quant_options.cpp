#include "train/options/quant_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "base/pattern.h"
#include "base/text.h"

namespace burnish::train {

namespace {

/// A method of theirs: ours where it computes the same, else "" and what is nearest.
struct Method {
  const char* name;
  const char* ours;
  const char* nearest;
};

// Methods of diffsynth/core/quant/backends: those that hold weights alone, then those that quantize what they are multiplied with too.
constexpr Method kMethods[] = {
    {"bitsandbytes_nf4", "nf4", ""},
    {"torchao_int8_w8a16", "int8", ""},
    {"torchao_fp8_w8a16", "fp8", ""},
    {"bitsandbytes_fp4", "", "--weight_format nf4, as many bytes and a smaller error"},
    {"torchao_nvfp4_w4a16", "", "--weight_format nf4; files in NVFP4 are held as they lie"},
    {"torchao_int4_w4a16", "", "--weight_format nf4"},
    {"comfy_kitchen_int8_w8a8", "int8_convrot", ""},
    {"comfy_kitchen_fp8_w8a8", "", "--weight_format fp8_tensor --fp8_compute, which quantizes gradients too"},
    {"torchao_int8_w8a8", "", "--weight_format int8 --int8_compute"},
    {"torchao_fp8_w8a8", "", "--weight_format fp8 --fp8_compute"},
    {"torchao_int4_w4a8", "", "--weight_format nf4"},
    {"torchao_mxfp8_w8a8", "", "--weight_format fp8 --fp8_compute"},
    {"torchao_mxfp4_w4a4", "", "--weight_format nf4"},
    {"torchao_nvfp4_w4a4", "", "--weight_format nf4"},
    {"entropack_lossless_df11", "", "no format: weights in bf16 are as exact"},
    {"entropack_lossless_tile_ans", "", "no format: weights in bf16 are as exact"},
    {"entropack_lossy_quant", "", "--weight_format int8"},
    {"entropack_lossy_quant_fp8", "", "--weight_format fp8"},
    {"entropack_lossy_quant_fp8_raw", "", "--weight_format fp8"},
    {"entropack_lossy_quant_int8", "", "--weight_format int8"},
    {"entropack_lossy_quant_int8_raw", "", "--weight_format int8"},
};

constexpr const char* kMultipliesCodes = "comfy_kitchen_int8_w8a8";

/// What is said of one model.
struct SaidOfModel {
  std::string model;
  std::string method, format;
  std::vector<std::string> stay = {};  ///< names of layers, or the ends of their paths
};

/// The first of its files, where a model is a list of them.
std::string first_file(const std::string& model) {
  const auto files = model.starts_with("[") ? nlohmann::json::parse(model, nullptr, false) : nlohmann::json();
  return files.is_array() && !files.empty() && files[0].is_string() ? files[0].get<std::string>() : model;
}

std::string format_of_method(const std::string& method, const std::string& model) {
  const auto* found = std::ranges::find_if(kMethods, [&](const Method& known) { return method == known.name; });
  if (found == std::end(kMethods)) {
    std::vector<std::string> known;
    for (const auto& one : kMethods) {
      if (*one.ours) known.emplace_back(one.name);
    }
    config_error("train", "quant_options {}:{} names no method that is known; those with a counterpart here are {}", model, method,
                 join(known));
  }
  if (*found->ours) return found->ours;
  config_error("train", "quant_options {}:{} has no counterpart here; the nearest is --fp8_models {} with {}", model, method, model,
               found->nearest);
}

[[noreturn]] void refuse_value(const std::string& model, const std::string& key, const nlohmann::json& value, const std::string& why) {
  config_error("train", "quant_options of {} say {} {}: {}", model, key, value.dump(-1, ' ', true), why);
}

/// A format by its method and the numbers that go with it.
std::string format_with(const std::string& method, const nlohmann::json& numbers, const std::string& model) {
  auto format = format_of_method(method, model);
  for (const auto& [key, value] : numbers.items()) {
    const bool is_rotated = key == "convrot" && format.starts_with("int8");
    if (is_rotated && value == false) format = "int8";
    const bool is_same = is_rotated || (key == "blocksize" && value == 64 && format == "nf4") ||
                         (key == "convrot_groupsize" && value == 256) || (key == "per_channel" && value == true) ||
                         key.starts_with("compress_statistics");
    if (!is_same) refuse_value(model, key, value, fmt::format("weight_format {} has its own; take it out", format));
  }
  return format;
}

std::vector<std::string> layers_in(const nlohmann::json& value, const std::string& model) {
  if (value.is_null()) return {};
  const bool is_list = value.is_array() && std::ranges::all_of(value, [](const auto& one) { return one.is_string(); });
  if (!is_list) refuse_value(model, "exclude_modules", value, "it is a list of names of layers");
  return value.get<std::vector<std::string>>();
}

/// An entry of JSON; nothing where the file has its codes already, which are taken as they lie.
std::optional<SaidOfModel> entry_in(const std::string& model, const nlohmann::json& said) {
  if (!said.is_object() || !said.value("method", nlohmann::json()).is_string() || said.contains("configs"))
    config_error("train",
                 "quant_options of {} are no object with a method; of several methods a model (configs) here takes one, and keeps layers "
                 "out of it with --high_precision_layers",
                 model);
  SaidOfModel entry{.model = first_file(model), .method = said["method"].get<std::string>(), .format = {}};
  for (const auto& [key, value] : said.items()) {
    if (key == "target_modules" && !value.is_null())
      refuse_value(model, key, value, "here layers are named that stay as they are, with exclude_modules or --high_precision_layers");
    if (key == "exclude_modules") entry.stay = layers_in(value, model);
  }
  const auto numbers = said.value("backend_config_kwargs", nlohmann::json());
  entry.format = format_with(entry.method, numbers.is_object() ? numbers : nlohmann::json::object(), model);
  return said.value("load_prequantized", nlohmann::json(false)) == true ? std::nullopt : std::optional(entry);
}

std::vector<SaidOfModel> entries_in_json(const std::string& text) {
  const auto all = nlohmann::json::parse(text, nullptr, false);
  if (!all.is_object()) config_error("train", "quant_options {} begins as JSON and is none", text);
  std::vector<SaidOfModel> entries;
  for (const auto& [model, said] : all.items()) {
    if (auto entry = entry_in(model, said)) entries.push_back(std::move(*entry));
  }
  return entries;
}

std::vector<SaidOfModel> entries_in(const std::string& text) {
  if (trim(text).starts_with("{")) return entries_in_json(text);
  std::vector<SaidOfModel> entries;
  for (const auto& part : split_list(text, ';')) {
    const auto colon = part.rfind(':');
    if (colon == part.npos) config_error("train", "quant_options {} is no MODEL:METHOD, as {}:bitsandbytes_nf4 would be", part, part);
    const auto spec = part.substr(colon + 1), method = spec.substr(0, spec.find('/'));
    if (spec.empty()) continue;
    const auto model = first_file(part.substr(0, colon));
    entries.push_back({model, method, format_of_method(method, model),
                       method == spec ? std::vector<std::string>() : split_list(spec.substr(method.size() + 1))});
  }
  return entries;
}

/// A regular expression for the paths that end in a name.
std::string pattern_of(const std::string& name) { return "(.*\\.)?" + literally(name); }

/// Sets an option that the run has not, or has alike.
void set(std::string& option, const char* name, const std::string& otherwise, const std::string& value) {
  if (option != otherwise && option != value)
    config_error("train", "quant_options ask for {} {}, and the run says {}; take one of them out", name, value, option);
  option = value;
}

}  // namespace

std::string put_quant_options(const std::string& text, ModelChoice& choice) {
  const ModelChoice otherwise;
  const auto entries = entries_in(text);
  if (entries.empty()) return "quant_options ask for nothing: weights that files have as codes are taken as they lie";
  std::vector<std::string> models, stay;
  for (const auto& entry : entries) {
    if (entry.format != entries[0].format || entry.method != entries[0].method)
      config_error("train", "quant_options ask for {} of {} and for {} of {}, and a run has one weight_format; say one for both",
                   entries[0].method, entries[0].model, entry.method, entry.model);
    models.push_back(entry.model);
    for (const auto& name : entry.stay) {
      if (!contains(stay, pattern_of(name))) stay.push_back(pattern_of(name));
    }
  }
  set(choice.fp8_models, "fp8_models", otherwise.fp8_models, join(models, ","));
  set(choice.weight_format, "weight_format", otherwise.weight_format, entries[0].format);
  if (entries[0].method == kMultipliesCodes) choice.int8_compute = true;
  if (!stay.empty()) set(choice.high_precision_layers, "high_precision_layers", otherwise.high_precision_layers, join(stay, ","));
  return fmt::format("quant_options become fp8_models {}, weight_format {}{} and high_precision_layers {}", choice.fp8_models,
                     choice.weight_format, choice.int8_compute ? ", int8_compute" : "", choice.high_precision_layers);
}

}  // namespace burnish::train
