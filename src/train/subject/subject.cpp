#include "train/subject/subject.h"

#include "base/dtype.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "models/model/columns.h"
#include "train/subject/choosing.h"
#include "train/subject/experts_meant.h"
#include "train/subject/slow_ways.h"
#include "train/subject/storage.h"
#include "train/subject/training_units.h"

namespace burnish::train {

namespace {

TrainedStorage trained_storage(const ModelSettings& settings, const Chosen& chosen) {
  return {chosen.whole_paths(), settings.trained_in_fp8};
}

/// Has the model run the blocks before the first trained one as a part of its own.
std::string split_first_blocks(models::Model& model, const Chosen& chosen) {
  if (chosen.experts.size() > 1)
    config_error("train", "precompute_timesteps blocks takes one expert at a time; name it in experts, or leave it at auto");
  auto component = chosen.experts.front().component;
  auto part = model.split_first_blocks([&](const std::string& path) { return chosen.trains(component, path); });
  if (!part.empty()) return part;
  config_error(
      "train",
      "precompute_timesteps blocks finds no frozen blocks to compute ahead: the first block of {} or what comes before it trains, or "
      "{} models have none that can be split off; name layers of later blocks in lora_target_modules or trainable_models, or leave "
      "it at auto",
      component, model.names().family);
}

/// Says so of a model that was made for an input and gets none in this run, which it may do without.
void warn_of_missing_input(const models::Model& model, const ModelSettings& settings) {
  const auto& expected = model.names().references.expected;
  if (expected.empty() || settings.options.extra_inputs.contains(expected)) return;
  const bool is_of_references = contains(models::reference_columns(), expected);
  if (is_of_references && !settings.options.references)
    warn("{} was trained with reference pictures, and this run has none; name their column with --extra_inputs {}", model.names().variant,
         expected);
  if (!is_of_references)
    warn("{} was trained with {}, and this run has none, so it learns with nothing in its place; name the column with --extra_inputs {}",
         model.names().variant, expected, expected);
}

/// Checks that the model reads the reference pictures that a run names.
void check_references(const models::Model& model, const std::string& column) {
  const auto columns = models::columns_of(model);
  const auto* references = find_read_as(columns, kReferences);
  const auto read = references == nullptr ? "" : references->name;
  if (column == read) return;
  config_error("train", "extra_inputs '{}' names reference pictures, and this {} model reads {}; {}", column, model.names().family,
               read.empty() ? "none" : "those of '" + read + "'", read.empty() ? "take it out" : "name that column");
}

/// Checks that the model reads the further columns that a run names.
void check_extra_inputs(const models::Model& model, const std::set<std::string>& columns) {
  for (const auto& column : columns) {
    if (find_column(model.names().extra_inputs, column) != nullptr) continue;
    config_error("train", "extra_inputs '{}' is for {}, which is not among the files of this {} model; name its file too, or take it out",
                 column, models::readers_of(column), model.names().family);
  }
}

/// Makes preset LoRAs a part of the model.
void merge_presets(models::Model& model, const ModelSettings& settings) {
  auto components = pipeline::components_of(training_units(model, model.names().experts));
  loras::MergeOptions options{.may_lack_components = true};
  for (const auto& name : settings.preset_components) {
    for (const auto& part : meant_by(name, model, model.experts_there())) options.components.push_back(component_called(part, components));
  }
  loras::merge(model, settings.presets, options);
  for (const auto& component : model.names().denoisers()) {
    if (settings.options.init == "random" && model.components().holding(component).merge)
      config_error("train", "init random draws the weights of {}, and a LoRA of preset_lora_path belongs to trained ones; take one out",
                   component);
  }
}

void add_companions(models::Model& model, const TrainedSettings& trained) {
  for (const auto& companion : trained.companions) {
    const auto of = companion.of.empty() ? model.experts_there().front().component : companion.of;
    const auto& components = model.components();
    models::add_beside(model, companion.recipe ? companion.recipe(model, trained.seed)
                                               : models::copy_of(*components.find(of), companion.name, companion.shares_weights));
  }
}

}  // namespace

Subject open_subject(const ModelSettings& settings, const TrainedSettings& trained, const models::Model* opened) {
  auto model = models::open_model(opened ? opened->files() : models::open_model_files(settings.names), settings.options);
  warn_of_missing_input(*model, settings);
  check_references(*model, settings.options.references.column);
  check_extra_inputs(*model, settings.options.extra_inputs);
  merge_presets(*model, settings);
  add_companions(*model, trained);
  auto chosen = choose(trained, *model);
  choose_storage(*model, settings.storage, trained_storage(settings, chosen));
  auto first_blocks = settings.first_blocks_apart ? split_first_blocks(*model, chosen) : "";
  return {std::move(model), std::move(chosen), first_blocks};
}

void say_held(const Subject& subject, const ModelSettings& settings) {
  const auto& model = *subject;
  const auto storage = trained_storage(settings, subject.chosen);
  const auto& device = settings.options.device;
  info("{}, {}{}", model.names().variant, dtype_name(settings.options.dtype), device.is_meta() ? ", planned" : " on " + device.str());
  for (const auto& component : model.components().list())
    info("  {:<16} {:>10}  {}{}", component.name, human_bytes(static_cast<double>(component.num_bytes)), component.origin,
         storage_text(model, component, settings.storage, storage));
  for (const auto& line : slow_ways(model, settings.storage, device, storage)) warn("{}", line);
}

}  // namespace burnish::train
