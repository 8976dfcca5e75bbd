#include "train/subject/storage.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "base/dtype.h"
#include "base/input_error.h"
#include "base/pattern.h"
#include "base/text.h"
#include "models/files/hub_files.h"
#include "quant/int8_mm.h"
#include "quant/source.h"
#include "quant/store.h"
#include "train/subject/experts_meant.h"

namespace burnish::train {

namespace fs = std::filesystem;

namespace {

bool same_place(const std::string& a, const std::string& b) { return fs::path(a).lexically_normal() == fs::path(b).lexically_normal(); }

/// A path without the slash at its end.
std::string plain_path(const std::string& path) {
  auto plain = fs::path(path).lexically_normal().string();
  return plain.size() > 1 && plain.ends_with('/') ? plain.substr(0, plain.size() - 1) : plain;
}

/// Tells whether an entry of fp8_models means a component: spelled as the model is, a folder that holds it, folder:component, or its name.
bool names_component(const std::string& entry, const models::Component& component) {
  auto origin = plain_path(component.origin);
  if (entry == component.origin || entry == component.name || same_place(entry, component.origin)) return true;
  if (component.origin.starts_with(entry + " (")) return true;  // the first of several shards
  if (fs::path(origin).parent_path() == fs::path(plain_path(entry))) return fs::is_directory(origin) || models::is_hub_model(entry);
  auto colon = entry.rfind(':');
  if (colon == std::string::npos) return false;
  auto folder = plain_path(entry.substr(0, colon)), part = entry.substr(colon + 1);
  if (fs::path(origin) == fs::path(folder) / part) return true;
  return component.name == part && (origin == folder || fs::path(origin).parent_path() == fs::path(folder));
}

/// Tells whether an entry means a component, by itself or as one of several experts.
bool means(const std::string& entry, const models::Component& component, const models::Model& model) {
  if (names_component(entry, component)) return true;
  const auto folder = entry.substr(0, entry.rfind(':') + 1);
  const auto meant = meant_by(entry.substr(folder.size()), model, model.names().experts);
  return std::ranges::any_of(meant, [&](const auto& name) { return names_component(folder + name, component); });
}

bool is_named(const models::Component& component, const models::Model& model, const ModelChoice& choice) {
  const auto entries = split_list(choice.fp8_models);
  return std::ranges::any_of(entries, [&](const auto& entry) { return means(entry, component, model); });
}

/// An option that has codes multiplied by codes, and of which kind these are.
struct CodeProducts {
  const char* option;
  bool is_asked;
  CodeKind kind;
};
std::array<CodeProducts, 3> products_of(const ModelChoice& choice) {
  return {{{"fp8_compute", choice.fp8_compute, CodeKind::e4m3},
           {"int8_compute", choice.int8_compute, CodeKind::int8},
           {"fp4_compute", choice.fp4_compute, CodeKind::e2m1}}};
}

const char* code_name(CodeKind kind) { return kind == CodeKind::int8 ? "INT8" : kind == CodeKind::e2m1 ? "NVFP4" : "FP8"; }

/// The kind of which a file's weights are multiplied with those of a kind.
std::optional<CodeKind> other_kind(CodeKind kind) {
  if (kind == CodeKind::int8) return CodeKind::int8_convrot;
  return kind == CodeKind::e4m3 ? std::optional(CodeKind::mxfp8) : std::nullopt;
}

/// Tells whether a component has weights of this kind of codes that are multiplied as such.
bool multiplies(const models::Component& component, CodeKind kind, const models::Model& model, const ModelChoice& choice,
                const TrainedStorage& trained) {
  if (component.num_stored == 0) return false;
  if (trained.paths.contains(component.name)) return kind == CodeKind::e4m3;
  if (is_named(component, model, choice)) return quant::ComputeSource::can_compute(quant::parse_format(choice.weight_format), kind);
  auto has = [&](CodeKind codes) { return std::ranges::find(component.codes, code_block(codes).name) != component.codes.end(); };
  const auto other = other_kind(kind);
  return has(kind) || (other && has(*other));
}

std::string component_list(const std::vector<models::Component>& components) {
  std::vector<std::string> texts;
  for (const auto& c : components) texts.push_back(fmt::format("{} ({})", c.name, c.origin));
  return join(texts);
}

/// The linear layers of a component, each by our path and by the names that adapter targets know it by.
std::map<std::string, std::vector<std::string>> layers_of(const models::Model& model, const std::string& component) {
  std::map<std::string, std::vector<std::string>> layers;
  for (const auto& [name, weight] : model.components().skeleton(component)->parameters()) {
    const auto path = name.substr(0, name.rfind('.'));
    if (layers.contains(path)) continue;
    auto names = model.names().of(component).target_names(path);
    names.push_back(path);
    layers.emplace(path, std::move(names));
  }
  return layers;
}

bool fits(const Pattern& pattern, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const auto& name) { return pattern.matches(name); });
}

/// Returns what stays in a component: expressions of the user's may be over the names that other programs have for layers.
std::vector<std::string> high_precision(const models::Model& model, const std::string& component, const ModelChoice& choice) {
  if (choice.high_precision_layers == "default") return model.names().of(component).high_precision;
  std::vector<std::string> stay;
  const auto layers = layers_of(model, component);
  for (const auto& text : split_list(choice.high_precision_layers)) {
    const Pattern pattern("train", "high_precision_layers", text);
    stay.push_back(text);
    for (const auto& [path, names] : layers) {
      if (!pattern.matches(path) && fits(pattern, names)) stay.push_back(literally(path));
    }
  }
  return stay;
}

/// A pattern that fits no layer of any component would leave that layer in few bits without a word.
void check_high_precision(const models::Model& model, const ModelChoice& choice) {
  if (choice.high_precision_layers == "default") return;
  std::vector<std::string> known;
  std::vector<std::vector<std::string>> layers;
  for (const auto& component : model.components().list()) {
    for (auto& [path, names] : layers_of(model, component.name)) {
      known.push_back(path);
      layers.push_back(std::move(names));
    }
  }
  for (const auto& text : split_list(choice.high_precision_layers)) {
    const Pattern pattern("train", "high_precision_layers", text);
    if (std::ranges::any_of(layers, [&](const auto& names) { return fits(pattern, names); })) continue;
    auto near = nearest_name(text, known);
    config_error("train", "high_precision_layers: '{}' fits the whole name of no layer{}; there is for example {}", text,
                 near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), known.empty() ? "none" : known[known.size() / 2]);
  }
}

}  // namespace

void choose_storage(models::Model& model, const ModelChoice& choice, const TrainedStorage& trained) {
  check_high_precision(model, choice);
  auto components = model.components().list();
  auto entries = split_list(choice.fp8_models);
  for (const auto& entry : entries) {
    bool found = false;
    for (const auto& component : components) {
      if (!means(entry, component, model)) continue;
      found = true;
      if (!trained.paths.contains(component.name)) continue;
      config_error("train",
                   "fp8_models names {} ({}), whose own weights train, and it is for weights that do not; leave it out, or train it in FP8 "
                   "with --trained_weights fp8, or an adapter over FP8: name it in lora_base_model instead of trainable_models",
                   entry, component.name);
    }
    if (!found)
      config_error("train", "fp8_models names {}, which is no model of this run; there are {}", entry, component_list(components));
  }
  for (const auto& component : components) {
    auto paths = trained.paths.find(component.name);
    if (paths != trained.paths.end() && !trained.in_fp8) continue;
    quant::StoreOptions options{.format = {},
                                .high_precision = {},
                                .fp8_compute = choice.fp8_compute,
                                .int8_compute = choice.int8_compute,
                                .fp4_compute = choice.fp4_compute};
    if (is_named(component, model, choice)) options.format = quant::parse_format(choice.weight_format);
    options.high_precision = high_precision(model, component.name, choice);
    if (paths != trained.paths.end()) options.trained = paths->second;
    options.gradient_dtype = parse_dtype(choice.dtype);
    model.components().set_store(component.name, std::make_shared<quant::Store>(options));
  }
  for (const auto& [option, is_asked, kind] : products_of(choice)) {
    auto has_codes = [&](const auto& component) { return multiplies(component, kind, model, choice, trained); };
    const auto name = code_name(kind);
    if (is_asked && std::ranges::none_of(model.components().list(), has_codes))
      config_error("train", "{} multiplies {} weights, and no model of this run has any; {}", option, name,
                   kind == CodeKind::e2m1   ? "read a file that has them, or take it out"
                   : kind == CodeKind::int8 ? "name one with --fp8_models --weight_format int8"
                                            : "name one with --fp8_models");
  }
}

HeldAs held_as(const models::Model& model, const models::Component& component, const ModelChoice& choice, const TrainedStorage& trained) {
  if (component.num_stored == 0) return {};
  auto has = [&](CodeKind kind) { return std::ranges::find(component.codes, code_block(kind).name) != component.codes.end(); };
  for (const auto& [option, is_asked, kind] : products_of(choice)) {
    if (!is_asked || !multiplies(component, kind, model, choice, trained)) continue;
    const auto other = other_kind(kind);
    if (trained.paths.contains(component.name)) return {kind, option};
    if (is_named(component, model, choice)) return {quant::parse_format(choice.weight_format).codes, option};
    return {has(kind) || !other ? kind : *other, option};
  }
  if (trained.paths.contains(component.name)) return {CodeKind::e4m3};
  if (is_named(component, model, choice)) return {quant::parse_format(choice.weight_format).codes};
  for (int kind = 0; kind <= static_cast<int>(kLastKind); ++kind) {
    if (has(static_cast<CodeKind>(kind))) return {static_cast<CodeKind>(kind)};
  }
  return {};
}

std::string storage_text(const models::Model& model, const models::Component& component, const ModelChoice& choice,
                         const TrainedStorage& trained) {
  if (component.num_stored == 0) return "";
  auto kept = high_precision(model, component.name, choice);
  auto how = trained.paths.contains(component.name) ? "trained in FP8 (E4M3) with a scale per output row"
             : is_named(component, model, choice)   ? "in " + quant::describe(quant::parse_format(choice.weight_format))
                                                    : "in " + join(component.codes) + " as in the file";
  std::string products;
  for (const auto& [_, is_asked, kind] : products_of(choice)) {
    if (!is_asked || !multiplies(component, kind, model, choice, trained)) continue;
    products += fmt::format(", multiplied in {}", code_name(kind));
    if (kind == CodeKind::int8 && !quant::has_int8_products(model_options(choice).device))
      products += " by products of fp32: this processor has none of INT8 that are exact and fast";
  }
  return fmt::format(" ({} layers, {:.0f} % of it, {}{}; norms, biases, tables and {} layers in {}{})", component.num_stored,
                     100 * component.stored_share, how, products, component.num_kept, choice.dtype,
                     component.num_kept > 0 ? ": " + join(kept) : "");
}

}  // namespace burnish::train
