#include "models/registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <stdexcept>

#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "kernels/shapes_only.h"
#include "models/families.h"
#include "models/refused_files.h"
#include "models/unused_files.h"

namespace burnish::models {

static std::vector<const Family*>& added() {
  static std::vector<const Family*> families;
  return families;
}

void add_family(const Family& family) { added().push_back(&family); }

std::vector<const Family*> all_families() {
  auto families = added();
  const auto built_in = built_in_families();
  families.insert(families.end(), built_in.begin(), built_in.end());
  return families;
}

/// The first published model that is `wanted`; null when no family has one.
template <class Wanted>
static const Variant* find_variant(const Wanted& wanted) {
  for (const auto* family : all_families()) {
    auto found = std::ranges::find_if(family->variants, wanted);
    if (found != family->variants.end()) return &*found;
  }
  return nullptr;
}

/// The components of the published model of that name; nothing when no family has one.
static std::optional<std::vector<ModelEntry>> published_sizes(const std::string& name) {
  kernels::ShapesOnly shapes_only;
  const auto* variant = find_variant([&](const Variant& one) { return one.name == name; });
  return variant != nullptr ? std::optional(variant->entries()) : std::nullopt;
}

const Variant* find_published(const std::string& name_or_id) {
  return find_variant([&](const Variant& one) { return one.name == name_or_id || (!one.id.empty() && one.id == name_or_id); });
}

const Variant* published_of_kind(const Model& model) {
  return find_variant([&](const Variant& one) { return one.title == model.names().variant; });
}

/// A data Error for a model of a hub that is known and cannot be run, before anything of it is fetched.
static void refuse_not_supported(const std::string& name) {
  const auto id = name.substr(0, name.find(':'));
  for (const auto* family : all_families()) {
    for (const auto& [word, why] : family->not_supported) {
      const bool is_id = std::ranges::count(id, '/') == 1 && id.substr(id.find('/') + 1).starts_with(word);
      if (is_id) data_error("models", "{} is not supported: {}; `burnish plan --help` names the models that are", id, why);
    }
  }
}

ModelFiles open_model_files(const ModelNames& names) {
  for (const auto& entry : split_list(names.model_id_with_origin_paths)) refuse_not_supported(entry);
  for (const auto& name : names.model) {
    std::error_code ignored;
    if (!std::filesystem::exists(name, ignored)) refuse_not_supported(name);
  }
  return open_files(names, published_sizes);
}

/// The family of an open model; one without anything of its own for a model that no family opened.
static const Family& family_of(const Model& model) {
  static const Family none{};
  const auto families = all_families();
  auto found = std::ranges::find_if(families, [&](const Family* family) { return family->name == model.names().family; });
  return found != families.end() ? **found : none;
}

CompanionFiles companion_files(const Model& model) { return family_of(model).companion_files(model); }

std::optional<std::filesystem::path> vocabulary_beside(const Model& model, const std::string& component) {
  return family_of(model).vocabulary_beside(model, component);
}

std::vector<Option> family_options() {
  std::vector<Option> all;
  for (const auto* family : all_families()) {
    for (const auto& option : family->options) {
      if (std::ranges::find(all, option.name, &Option::name) == all.end()) all.push_back(option);
    }
  }
  return all;
}

std::vector<std::string> options_about(Option::About about) {
  std::vector<std::string> names;
  for (const auto& option : family_options()) {
    if (option.about == about) names.push_back(option.name);
  }
  return names;
}

void take_family_values(const Model& model, OptionValues& own) {
  for (const auto& option : family_of(model).options) own.add(option);
}

OptionValues default_options() { return OptionValues(family_options()); }

bool is_denoiser(const std::string& component) {
  auto name = component.ends_with("_1") ? component.substr(0, component.size() - 2) : component;  // as training finds components
  return std::ranges::any_of(all_families(), [&](const auto* family) {
    return std::ranges::find(family->denoisers, std::string_view(name)) != family->denoisers.end();
  });
}

std::vector<std::string> reference_columns() {
  std::vector<std::string> columns;
  for (const auto* family : all_families()) {
    for (auto column : family->reference_columns) {
      if (!contains(columns, std::string(column))) columns.emplace_back(column);
    }
  }
  return columns;
}

Columns extra_inputs() {
  Columns all;
  // Of a name that several families have, a column that prompts give comes before one of what is drawn.
  for (const bool is_drawn : {false, true}) {
    for (const auto* family : all_families()) {
      for (const auto& column : family->extra_inputs) {
        if ((column.fit == Column::Fit::target) != is_drawn) continue;
        const auto* other = find_column(all, column.name);
        if (other == nullptr) all.push_back(column);
        else if (other->is != column.is)
          throw std::logic_error(fmt::format("two families read the column '{}', of different kinds", column.name));
      }
    }
  }
  return all;
}

std::string readers_of(const std::string& column) {
  std::vector<std::string> readers;
  for (const auto* family : all_families()) {
    const auto* found = find_column(family->extra_inputs, column);
    if (found != nullptr && !contains(readers, found->words.needs)) readers.push_back(found->words.needs);
  }
  return join(readers, " or ");
}

namespace {

/// Refuses options of other families that were given a value and cannot be left unread.
void check_options(const Family& family, const ModelOptions& options) {
  for (const auto& option : family_options()) {
    bool has_it = std::ranges::find(family.options, option.name, &Option::name) != family.options.end();
    if (options.own.is_given(option) && !has_it && !option.elsewhere.empty())
      config_error("models", "{} is not supported for this model; {}", option.name, option.elsewhere);
  }
  if (options.dtype == c10::kHalf && !family.takes_fp16)
    config_error("models", "fp16 is not supported for this model; choose dtype bf16 or fp32");
}

}  // namespace

std::vector<std::string> published_models() {
  std::vector<std::string> names;
  for (const auto* family : all_families()) {
    for (const auto& variant : family->variants) names.emplace_back(variant.name);
  }
  return names;
}

static const Family& family_of(const ModelFiles& files, const ModelOptions& options);
static std::unique_ptr<Model> open_as(const Family& family, const ModelFiles& files, ModelOptions options);

std::unique_ptr<Model> open_published_model(const std::string& name) {
  auto entries = published_sizes(name);
  if (!entries) return nullptr;
  ModelOptions options{.references = true};  // with all components that it may have
  options.own = default_options();
  const ModelFiles files{std::move(*entries), {}};
  return open_as(family_of(files, options), files, options);  // many are looked at, and the licence of none binds yet
}

/// The family of the denoiser among the files; of files that a stage encodes with, which need none, the one family that reads a column of
/// the run.
static const Family& family_of(const ModelFiles& files, const ModelOptions& options) {
  std::vector<std::string> names;
  const Family* by_column = nullptr;
  bool is_one = false;
  for (const auto* family : all_families()) {
    if (family->recognises(files)) return *family;
    names.emplace_back(family->name);
    auto reads = [&](const auto& input) { return options.extra_inputs.contains(input.name); };
    if (std::ranges::none_of(family->extra_inputs, reads)) continue;
    is_one = by_column == nullptr;
    by_column = family;
  }
  if (!is_one) data_error("models", "no denoiser of a known family ({}) in {}", join(names), files.describe());
  return *by_column;
}

static std::unique_ptr<Model> open_as(const Family& family, const ModelFiles& files, ModelOptions options) {
  check_options(family, options);
  for (const auto& option : family.options) options.own.add(option);
  auto model = family.open(files, options);
  refuse_unused(*model, all_families());
  auto can_draw = [&](const auto& expert) {
    const auto* recipe = model->components().find(expert.component);
    return recipe != nullptr && recipe->initialise;
  };
  if (options.init == "random" && !std::ranges::all_of(model->experts_there(), can_draw))
    config_error("models", "init random is not supported for this model; choose init pretrained");
  return model;
}

std::unique_ptr<Model> open_model(const ModelFiles& files, ModelOptions options) {
  refuse_unread(files);
  const auto& family = family_of(files, options);
  auto model = open_as(family, files, std::move(options));
  if (!family.license.notice.empty()) info("{}", family.license.notice);
  return model;
}

}  // namespace burnish::models
