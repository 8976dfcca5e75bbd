#include "train/options/objective_options.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/input_error.h"
#include "base/text.h"
#include "models/registry.h"
#include "train/options/meaning.h"
#include "train/samples/sample_list.h"
#include "train/subject/option_rows.h"

namespace burnish::train {

namespace {

std::string word_of(const TrainOptions& o) { return o.task.substr(0, o.task.find(':')); }

/// What inputs of DiffSynth-Studio are for, by a part of their names.
constexpr std::pair<const char*, const char*> kConditions[] = {
    {"nexus_gen_", "models that edit a picture (Nexus-Gen)"},
    {"insert_anything_", "models that put a thing into a picture (Insert-Anything)"},
    {"template_", "plug-in models"},
};

void refuse_condition(const std::string& name) {
  for (const auto& [part, what] : kConditions) {
    if (name.find(part) != name.npos) config_error("train", "extra_inputs '{}' is for {}, and no model here reads it", name, what);
  }
}

void check_extra_inputs(const TrainOptions& o) {
  const auto& kind = objective_of(o);
  for (const auto& name : split_list(o.extra_inputs)) {
    if (contains(kind.columns, name) || contains(columns_of_models(), name)) continue;
    refuse_condition(name);
    auto known = kind.columns;
    std::ranges::copy(columns_of_models(), std::back_inserter(known));
    const auto nearest = nearest_name(name, known);
    config_error("train", "extra_inputs '{}' is no column that task {} or a model here reads{}; burnish train --help lists them", name,
                 kind.word, nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
  }
  auto column = reference_column(o);
  for (const auto& name : split_list(o.extra_inputs)) {
    if (name != column && contains(models::reference_columns(), name) && !extra_columns(o).contains(name))
      config_error("train",
                   "extra_inputs names reference pictures in '{}' and in '{}', and a model reads those of one column; take one out", column,
                   name);
  }
  if (column.empty() && !extra_columns(o).empty()) column = *extra_columns(o).begin();
  if (column.empty() || !encodes(o)) return;
  for (const auto& dataset : datasets_of(o)) {
    if (dataset.subset.augmentation.random_crop)
      config_error("train", "random_crop cuts a picture elsewhere than its reference pictures (extra_inputs {}); take one of them out",
                   column);
    if (dataset.subset.augmentation.alters())
      config_error("train",
                   "options that turn a picture or change its colours leave its reference pictures (extra_inputs {}) as they are; take one "
                   "of them out",
                   column);
  }
}

}  // namespace

std::string reference_column(const TrainOptions& o) {
  auto known = models::reference_columns();
  for (const auto& name : split_list(o.extra_inputs)) {
    if (contains(known, name)) return name;
  }
  return "";
}

std::string take_inputs_of_cache(TrainOptions& o) {
  if (encodes(o) || !trains(o) || !o.extra_inputs.empty() || !o.cache.import_diffsynth.empty()) return "";
  o.extra_inputs = read_list_head(o.data.base_path).extra_inputs;
  return o.extra_inputs.empty()
             ? ""
             : fmt::format("the cache {} was made with extra_inputs {}, which are read", o.data.base_path, o.extra_inputs);
}

std::set<std::string> extra_columns(const TrainOptions& o) {
  std::set<std::string> columns;
  auto known = models::extra_inputs();
  for (const auto& name : split_list(o.extra_inputs)) {
    if (find_column(known, name) != nullptr) columns.insert(name);
  }
  return columns;
}

const ObjectiveKind& objective_of(const TrainOptions& o) {
  auto word = word_of(o), stage = o.task.substr(word.size());
  if (stage.empty() || stage == ":data_process" || stage == ":train") {
    for (auto* kind : kObjectives) {
      if (kind().word == word) return kind();
    }
  }
  config_error("train", "task '{}' is not known; choose one of {}, alone or with :data_process or :train", o.task, join(objective_words()));
}

bool needs_pictures(const TrainOptions& o) { return objective_of(o).needs_pictures(o.objective); }

bool is_whole(const TrainOptions& o) { return o.task == word_of(o); }

void check_objective(const TrainOptions& o) {
  check_extra_inputs(o);
  check_options(objective_options(), o.objective);
  const auto& kind = objective_of(o);
  if (encodes(o) && !kind.takes_strengths &&
      std::ranges::any_of(datasets_of(o), [](const auto& d) { return d.subset.visits.slider_strength != 1; }))
    config_error("train", "slider_strength of a dataset is for task sft, and this is {}; take it out", kind.word);
  kind.check({.own = o.objective,
              .augments = augments(o),
              .draws_latents = o.cache.latents != "mean",
              .replays = !o.course.replay.empty(),
              .noise_offset = o.noise_offset,
              .loss_type = o.robust.type,
              .is_weighed = (o.loss.weighting != "default" && o.loss.weighting != "uniform") || o.loss.min_snr_gamma > 0,
              .has_masks = o.masks.from != "none",
              .validates = !o.data.validation_metadata_path.empty(),
              .names_data = !(o.data.metadata_path + o.data.base_path + o.data.config).empty(),
              .has_class_set = has_class_set(o),
              .has_trigger_word = has_trigger_word(o)});
}

std::string input_fingerprint(const TrainOptions& o) {
  std::vector<std::string> texts;
  if (auto column = reference_column(o); !column.empty()) texts.push_back("references " + column);
  if (auto columns = extra_columns(o); !columns.empty()) texts.push_back(fmt::format("extra inputs {}", fmt::join(columns, " ")));
  return join(texts);
}

std::string objective_fingerprint(const TrainOptions& o) {
  const auto& kind = objective_of(o);
  std::string text = kind.is_named ? kind.word : "";
  if (const auto own = kind.fingerprint(o.objective); !own.empty()) text += (text.empty() ? "" : " ") + own;
  return text.empty() ? "" : ", " + text;
}

}  // namespace burnish::train
