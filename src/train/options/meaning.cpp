#include "train/options/meaning.h"

#include <algorithm>
#include <set>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"
#include "optim/rounding.h"

namespace burnish::train {

std::vector<DatasetChoice> datasets_of(const TrainOptions& o) {
  if (!o.data.config.empty()) return read_dataset_config(o.data.config, o.dataset);
  std::vector<DatasetChoice> all{o.dataset};
  all[0].subset.metadata_path = metadata_path(o);
  all[0].subset.base_path = o.data.base_path;
  if (o.data.class_metadata_path.empty()) return all;
  all.push_back(o.dataset);
  auto& class_set = all[1].subset;
  class_set.metadata_path = o.data.class_metadata_path;
  class_set.base_path = o.data.class_base_path;
  class_set.caption_files.class_tokens = o.data.class_prompt;
  class_set.caption_files.mask_folder.clear();
  class_set.visits.trigger_word.clear();
  class_set.visits.of_class_set = true;
  return all;
}

static bool any_augmentation(const TrainOptions& o, bool (data::Augmentation::*holds)() const) {
  if (!encodes(o)) return (o.dataset.subset.augmentation.*holds)();
  return std::ranges::any_of(datasets_of(o), [&](const auto& dataset) { return (dataset.subset.augmentation.*holds)(); });
}

bool augments(const TrainOptions& o) { return any_augmentation(o, &data::Augmentation::is_any); }
bool varies(const TrainOptions& o) { return any_augmentation(o, &data::Augmentation::varies); }

bool has_class_set(const TrainOptions& o) {
  return !encodes(o) || std::ranges::any_of(datasets_of(o), [](const auto& one) { return one.subset.visits.of_class_set; });
}

bool has_trigger_word(const TrainOptions& o) {
  return !encodes(o) ||
         std::ranges::any_of(datasets_of(o), [](const auto& dataset) { return !dataset.subset.visits.trigger_word.empty(); });
}

int64_t checkpoint_rank(const TrainOptions& o) {
  if (o.trained.lora_checkpoint.empty()) return 0;
  bool is_typed = contains(o.given, "lora_rank");  // it may say its default
  if (o.trained.checkpoint_rank > 0 && (!is_typed || contains(o.given, "lora_checkpoint_rank"))) return o.trained.checkpoint_rank;
  return is_typed || o.adapter.rank != adapters::AdapterOptions().rank ? o.adapter.rank : 0;
}

optim::OptimizerOptions optimizer_options(const TrainOptions& o) {
  auto optimizer = o.step.optimizer;
  optimizer.rounding = optim::parse_rounding(o.trained.weights);
  optimizer.seed = static_cast<uint64_t>(o.model.seed);
  return optimizer;
}

bool encodes(const TrainOptions& o) { return !o.task.ends_with(":train") && o.cache.import_diffsynth.empty(); }
bool trains(const TrainOptions& o) { return !o.task.ends_with(":data_process"); }
std::string metadata_path(const TrainOptions& o) { return o.data.metadata_path.empty() ? o.data.base_path : o.data.metadata_path; }

std::string cache_folder(const TrainOptions& o) {
  if (!encodes(o) && o.cache.import_diffsynth.empty()) return o.data.base_path;
  return o.cache.path.empty() && !trains(o) ? o.output_path : o.cache.path;
}

std::vector<std::pair<std::string, double>> component_rates(const TrainOptions& o) {
  std::vector<std::pair<std::string, double>> rates;
  for (const auto& entry : split_list(o.trained.component_rates)) {
    auto equals = entry.find('=');
    auto number = equals == entry.npos ? entry : entry.substr(equals + 1);
    const auto rate = parse_number<double>(number);
    if (!rate || *rate <= 0)
      config_error("train", "text_encoder_lr '{}' must be a number above 0, or a list of component=number", o.trained.component_rates);
    rates.emplace_back(equals == entry.npos ? "" : entry.substr(0, equals), *rate);
  }
  std::stable_sort(rates.begin(), rates.end(), [](const auto& a, const auto& b) { return a.first.empty() && !b.first.empty(); });
  return rates;
}

/// Commas stand within lists of layers too: where any are named, semicolons part strengths.
std::vector<Strength> validation_strengths(const TrainOptions& o) {
  const auto& text = o.validation_strengths;
  const bool names_layers = text.find_first_of(";:=") != text.npos;
  std::vector<Strength> strengths;
  std::set<std::string> seen;
  auto add = [&](std::string_view part) {
    const auto strength = parse_strength(part);
    if (!strength || !seen.insert(strength->text()).second)
      config_error("train",
                   "validation_strengths '{}' must be a comma list of different numbers, 0,0.5,1.5 say, or a list with semicolons between "
                   "whose numbers may name layers: 0.5; 1:attn=0,ff=0.5",
                   text);
    if (strength->whole != 1 || strength->layers.is_given()) strengths.push_back(*strength);
  };
  for (const auto& entry : split_list(text, names_layers ? ';' : ',')) {
    const bool is_of_numbers = entry.find_first_of(":=") == entry.npos;
    for (const auto& part : is_of_numbers ? split_list(entry) : std::vector{entry}) add(part);
  }
  return strengths;
}

adapters::AdapterOptions adapter_options(const TrainOptions& o) {
  auto adapter = o.adapter;
  adapter.dora_norm = adapters::parse_norm_axis(o.trained.dora_norm);
  return adapter;
}

}  // namespace burnish::train
