#include "train/options/meaning.h"

#include <algorithm>
#include <set>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"

namespace burnish::train {

std::vector<DatasetChoice> datasets_of(const TrainOptions& o) {
  if (!o.dataset_config.empty()) return read_dataset_config(o.dataset_config, o.dataset);
  std::vector<DatasetChoice> all{o.dataset};
  all[0].metadata_path = metadata_path(o);
  all[0].base_path = o.dataset_base_path;
  if (o.class_metadata_path.empty()) return all;
  all.push_back(o.dataset);
  all[1].metadata_path = o.class_metadata_path;
  all[1].base_path = o.class_base_path;
  all[1].class_tokens = o.class_prompt;
  all[1].trigger_word.clear();
  all[1].mask_folder.clear();
  all[1].is_reg = true;
  return all;
}

static bool any_augmentation(const TrainOptions& o, bool (data::Augmentation::*holds)() const) {
  if (!encodes(o)) return (o.dataset.augmentation.*holds)();
  return std::ranges::any_of(datasets_of(o), [&](const auto& dataset) { return (dataset.augmentation.*holds)(); });
}

bool augments(const TrainOptions& o) { return any_augmentation(o, &data::Augmentation::is_any); }
bool varies(const TrainOptions& o) { return any_augmentation(o, &data::Augmentation::varies); }

bool has_class_set(const TrainOptions& o) { return !encodes(o) || std::ranges::any_of(datasets_of(o), &DatasetChoice::is_reg); }

bool has_trigger_word(const TrainOptions& o) {
  return !encodes(o) || std::ranges::any_of(datasets_of(o), [](const auto& dataset) { return !dataset.trigger_word.empty(); });
}

int64_t checkpoint_rank(const TrainOptions& o) {
  if (o.lora_checkpoint.empty()) return 0;
  bool is_typed = contains(o.given, "lora_rank");  // it may say its default
  if (o.lora_checkpoint_rank > 0 && (!is_typed || contains(o.given, "lora_checkpoint_rank"))) return o.lora_checkpoint_rank;
  return is_typed || o.adapter.rank != adapters::AdapterOptions().rank ? o.adapter.rank : 0;
}

optim::OptimizerOptions optimizer_options(const TrainOptions& o) {
  return {o.optimizer,      o.weight_decay, optim::parse_rounding(o.trained_weights), static_cast<uint64_t>(o.model.seed),
          o.optimizer_args, o.cautious};
}

optim::ScheduleOptions schedule_options(const TrainOptions& o, int64_t max_steps) {
  auto schedule = o.schedule;
  schedule.max_steps = max_steps;
  // int(share * steps), as sd-scripts and OneTrainer have it; while steps are not known, a warm-up of some.
  if (o.lr_warmup_ratio > 0)
    schedule.warmup_steps = max_steps > 0 ? static_cast<int64_t>(o.lr_warmup_ratio * static_cast<double>(max_steps)) : 1;
  return schedule;
}

bool encodes(const TrainOptions& o) { return !o.task.ends_with(":train") && o.import_diffsynth.empty(); }
bool trains(const TrainOptions& o) { return !o.task.ends_with(":data_process"); }
bool recomputes(const TrainOptions& o) { return o.use_gradient_checkpointing || o.use_gradient_checkpointing_offload; }

int64_t waiting_blocks(const TrainOptions& o) { return o.enable_model_cpu_offload ? kAllBlocks : o.blocks_to_swap; }

std::string metadata_path(const TrainOptions& o) { return o.dataset_metadata_path.empty() ? o.dataset_base_path : o.dataset_metadata_path; }

std::string cache_folder(const TrainOptions& o) {
  if (!encodes(o) && o.import_diffsynth.empty()) return o.dataset_base_path;
  return o.cache_path.empty() && !trains(o) ? o.output_path : o.cache_path;
}

std::vector<std::pair<std::string, double>> component_rates(const TrainOptions& o) {
  std::vector<std::pair<std::string, double>> rates;
  for (const auto& entry : split_list(o.text_encoder_lr)) {
    auto equals = entry.find('=');
    auto number = equals == entry.npos ? entry : entry.substr(equals + 1);
    const auto rate = parse_number<double>(number);
    if (!rate || *rate <= 0)
      config_error("train", "text_encoder_lr '{}' must be a number above 0, or a list of component=number", o.text_encoder_lr);
    rates.emplace_back(equals == entry.npos ? "" : entry.substr(0, equals), *rate);
  }
  std::stable_sort(rates.begin(), rates.end(), [](const auto& a, const auto& b) { return a.first.empty() && !b.first.empty(); });
  return rates;
}

std::vector<double> validation_strengths(const TrainOptions& o) {
  auto strengths = parse_numbers<double>(o.validation_strengths);
  if (!strengths || std::set(strengths->begin(), strengths->end()).size() != strengths->size())
    config_error("train", "validation_strengths '{}' must be a comma list of different numbers, 0,0.5,1.5 say", o.validation_strengths);
  std::erase(*strengths, 1);
  return *strengths;
}

adapters::AdapterOptions adapter_options(const TrainOptions& o) {
  auto adapter = o.adapter;
  adapter.dora_norm = adapters::parse_norm_axis(o.dora_norm);
  return adapter;
}

}  // namespace burnish::train
