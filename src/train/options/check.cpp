#include "train/options/check.h"

#include <algorithm>
#include <cmath>

#include "adapters/adapter_file.h"
#include "adapters/lokr.h"
#include "base/dtype.h"
#include "base/http_address.h"
#include "base/limits.h"
#include "base/numbers_by_name.h"
#include "base/sizes.h"
#include "base/text.h"
#include "config/problems.h"
#include "loras/merged.h"
#include "train/objectives/robust_loss.h"
#include "train/options/fields.h"
#include "train/options/idle_options.h"
#include "train/options/meaning.h"
#include "train/options/objective_options.h"

namespace burnish::train {

using config::Problems;

namespace {

void check_task(const TrainOptions& o, Problems& problems) {
  objective_of(o);
  if (o.cache.precompute == "none" && (!is_whole(o) || !o.cache.path.empty()))
    problems.add("precompute none keeps nothing, and task {} with a cache_path does; take one of them out", o.task);
}

void check_precompute(const TrainOptions& o, Problems& problems) {
  if (o.cache.precompute_timesteps == "blocks" && o.cache.precompute == "none")
    problems.add("precompute none computes everything at every visit, and precompute_timesteps blocks ahead; take one of them out");
  if (o.cache.precompute_timesteps == "blocks" && trains(o) && cache_folder(o).empty())
    problems.add(
        "precompute_timesteps blocks keeps every token of every visit, which is too much for memory; name a folder with "
        "--cache_path");
  bool has_budget = o.cache.budget > 0 || o.cache.memory_budget > 0;
  if (has_budget && !is_whole(o))
    problems.add("cache_budget and memory_budget choose what a whole run keeps, and task {} is half of one; choose {}", o.task,
                 objective_of(o).word);
  if (has_budget && o.cache.precompute == "none") problems.add("precompute none keeps nothing; take it or the budget out");
}

void check_data(const TrainOptions& o, Problems& problems) {
  if (!o.cache.import_diffsynth.empty()) {
    if (!objective_of(o).imports_diffsynth)
      problems.add("import_diffsynth brings samples for the tasks sft and direct_distill; make the cache of {} anew", o.task);
    if (!trains(o) && o.cache.path.empty() && o.output_path.empty()) problems.add("name the folder to make with --cache_path");
  } else if (o.task.ends_with(":train")) {
    if (o.data.base_path.empty()) problems.add("{} trains from a cache; name its folder with --dataset_base_path", o.task);
    if (!o.data.metadata_path.empty())
      problems.add("{} takes its samples from the cache; take dataset_metadata_path out, or choose task sft with --cache_path", o.task);
  } else if (!o.data.config.empty()) {
    if (!(metadata_path(o) + o.data.class_metadata_path).empty())
      problems.add("dataset_config names all data; put the other dataset into it, or take dataset_config out");
  } else if (metadata_path(o).empty() && (o.model.is_plan || !needs_pictures(o))) {
    if (o.dataset.subset.size.height == 0 && o.dataset.resolution.empty())
      problems.add("no data given; name it with --dataset_metadata_path, or say with --height and --width how large pictures are");
  } else if (metadata_path(o).empty()) {
    problems.add("no data given; name a metadata file, or a folder of pictures with .txt captions, with --dataset_metadata_path");
  }
  if (!encodes(o) && !o.data.config.empty())
    problems.add("dataset_config belongs to the command that makes the cache; {} takes the datasets from there", o.task);
  if (!encodes(o) && !o.data.class_metadata_path.empty())
    problems.add("class_metadata_path belongs to the command that makes the cache; {} takes the class set from there", o.task);
  if (o.data.class_metadata_path.empty() && !o.data.class_base_path.empty())
    problems.add("class_base_path is where the class set's files are, and there is none; name one in class_metadata_path");
  if (o.cache.num_processes < 1 || o.cache.process_index < 0 || o.cache.process_index >= o.cache.num_processes)
    problems.add("process_index must lie between 0 and num_processes - 1, not {} of {}", o.cache.process_index, o.cache.num_processes);
  if (o.cache.num_processes > 1 && trains(o))
    problems.add("num_processes shares out the making of a cache; give it with `burnish cache` or task sft:data_process");
}

void check_augmentation(const TrainOptions& o, Problems& problems) {
  if (o.cache.variants > 1 && !varies(o))
    problems.add("cache_variants {} without random_crop, random_flip or another random_... would be equal pictures; add one of them",
                 o.cache.variants);
  if (!encodes(o) && (augments(o) || o.cache.variants > 0))
    problems.add(
        "random_crop, random_flip, other ways to change pictures and cache_variants belong to the command that makes the cache; sft:train "
        "takes its variants");
  if (!encodes(o) && o.dataset.subset.visits.captions.varies())
    problems.add(
        "shuffle_caption, enable_wildcard and caption_tag_dropout_rate belong to the command that makes the cache, which lists them "
        "for {}",
        o.task);
}

void check_masks(const TrainOptions& o, Problems& problems) {
  if (!(o.masks.unmasked_weight >= 0 && o.masks.unmasked_weight <= 1))
    problems.add("unmasked_weight must lie between 0 and 1, not {}", o.masks.unmasked_weight);
  if (o.masks.from == "none" && (o.masks.unmasked_weight > 0 || o.masks.per_area))
    problems.add(
        "unmasked_weight and normalize_masked_area_loss say how masks count, and there are none; set masked_loss to column or "
        "alpha");
  if (o.masks.from == "column" && o.masks.column.empty())
    problems.add("masked_loss column needs the name of a column; set mask_column, mask say");
  if (!o.dataset.subset.caption_files.mask_folder.empty() && o.masks.column != "mask")
    problems.add("the masks of mask_folder are the column mask, and mask_column is '{}'; take one of the two out", o.masks.column);
  if (o.masks.from != "none" && !objective_of(o).counts_masks)
    problems.add("{} compares whole pictures; take masked_loss {} out", objective_of(o).word, o.masks.from);
}

void check_groups(const TrainOptions& o, Problems& problems) {
  if (o.step.warmup_ratio > 0 && o.step.schedule.warmup_steps > 0)
    problems.add("lr_warmup_ratio says the warm-up as a share of the run and lr_warmup_steps in steps; take one of them out");
  const auto most = o.adapter.type == "lokr" ? adapters::kMostLokrRank : kMostRank;
  if (o.adapter.rank > most && most == kMostRank)
    problems.add("lora_rank must be at most {}, not {}; lora_type lokr alone takes more, which leaves its second factor whole", most,
                 o.adapter.rank);
  NumbersByName("train", "lora_rank_groups", o.trained.rank_groups, 1, static_cast<double>(most));
  NumbersByName("train", "lora_alpha_groups", o.trained.alpha_groups);
  if (!o.trained.lora_checkpoint.empty() && !(o.trained.rank_groups + o.trained.alpha_groups).empty())
    problems.add("lora_rank_groups and lora_alpha_groups are for a new adapter, and lora_checkpoint has ranks and alphas; take one out");
}

void check_presets(const TrainOptions& o, Problems& problems) {
  for (const auto& text : o.trained.presets) {
    if (!std::isfinite(loras::parse_lora_file(text).strength))
      problems.add("the strength of the preset LoRA {} must be a finite number", text);
  }
  if (!o.trained.presets.empty()) return;
  if (!o.trained.preset_components.empty())
    problems.add("preset_lora_model says what preset LoRAs are merged into, and there are none; name them in preset_lora_path");
  if (o.output.previews.with_presets)
    problems.add("preview_with_presets draws with preset LoRAs, and there are none; take it out, or name them in preset_lora_path");
}

void check_embedding(const TrainOptions& o, Problems& problems) {
  check(o.embedding, !o.trained.adapted.empty() || !o.trained.lora_checkpoint.empty(), problems);
}

/// Longer ones leave no room for a step and a component in the name of a file.
constexpr size_t kLongestName = 150;

/// Refuses options of what happens beside steps where it has nothing to be about.
void check_hooks(const TrainOptions& o, Problems& problems) {
  if (o.output.name.find_first_of(std::string_view("/\\\n\0", 4)) != o.output.name.npos || o.output.name.starts_with('.') ||
      o.output.name.size() > kLongestName)
    problems.add(
        "output_name '{}' is no name of a file: take slashes and a dot at its start out of it, up to {} bytes; folders are named "
        "in output_path",
        o.output.name.substr(0, kLongestName), kLongestName);
  if (o.output.validation_steps > 0 && o.data.validation_metadata_path.empty())
    problems.add("validation_steps judges held-out samples, and there are none; name their metadata in validation_metadata_path");
  if (o.output.save.keep_best && o.output.validation_steps == 0)
    problems.add("keep_best goes by the loss of held-out samples; set validation_steps, and validation_metadata_path");
  if (o.output.previews.every > 0 && o.output.previews.prompts.empty())
    problems.add("preview_steps draws pictures, and no prompts are given; name a file with one a line in preview_prompts");
  if (o.output.previews.with_presets && o.output.previews.prompts.empty())
    problems.add("preview_with_presets says how previews are drawn, and no prompts are given; name a file in preview_prompts");
  if (o.output.save.keep_last > 0 && o.output.save.steps == 0 && o.output.save.epochs == 0 && o.output.save.minutes == 0)
    problems.add(
        "keep_last keeps the last of several saves, and this run saves at its end only; set save_steps, save_epochs or "
        "save_minutes");
}

/// An address may be a secret, so none is repeated.
void check_tell(const TrainOptions& o, Problems& problems) {
  const auto& address = o.tell.webhook;
  if (!address.empty() && !is_http(address)) problems.add("webhook must be an address that begins with https:// or http://");
}

/// Refuses ways to save memory that do not go together.
void check_memory(const TrainOptions& o, Problems& problems) {
  if (o.step.memory.blocks_on_disk > waiting_blocks(o.step, o.step_words))
    problems.add("blocks_on_disk {} is more than blocks_to_swap {}, of which they are; raise blocks_to_swap", o.step.memory.blocks_on_disk,
                 o.step.memory.paged_blocks);
  if (o.step.memory.interval > 1 && !recomputes(o.step, o.step_words) && o.step_words.activation_budget.empty())
    problems.add("gradient_checkpointing_interval says how many blocks are recomputed, and none is; add use_gradient_checkpointing");
  if (!o.step_words.activation_budget.empty()) {
    problems.gather([&] { parse_size("train", "activation_budget", o.step_words.activation_budget); });
    if (o.step.memory.interval > 1)
      problems.add(
          "activation_budget chooses which blocks are recomputed, and gradient_checkpointing_interval names them; take one of the "
          "two out");
  }
  if (o.step.memory.feed_forward_tokens > 0 && o.adapter.dropout > 0)
    problems.add(
        "lora_dropout draws what it drops for all tokens of a sample, and feed_forward_chunk_size {} takes some at a time; take one of the "
        "two out",
        o.step.memory.feed_forward_tokens);
  if (!o.step.memory.updates_in_backward) return;
  if (o.course.batches_per_step > 1)
    problems.add(
        "fused_backward_pass frees a gradient before the next batch could be added to it; set gradient_accumulation_steps to 1, or "
        "take fused_backward_pass out");
  if (parse_dtype(o.model.dtype) == c10::kHalf)
    problems.add(
        "fused_backward_pass updates before it is known whether a gradient overflows fp16; choose dtype bf16 or fp32, or take it "
        "out");
  if (optim::needs_all_gradients(optimizer_options(o)))
    problems.add("{} needs all gradients before its first update; take fused_backward_pass out, or choose another optimizer",
                 o.step.optimizer.name);
}

/// What can be counted, and is no slip of the finger. Numbers that their own rows refuse are not said twice.
void check_limits(const TrainOptions& o, Problems& problems) {
  auto samples_a_step = static_cast<double>(o.course.batches_per_step) * static_cast<double>(o.course.batch_size);
  bool are_within =
      o.course.max_steps <= kMostSteps && o.course.batches_per_step <= kMostBatchesAStep && o.course.batch_size <= kMostInABatch;
  if (are_within && samples_a_step * static_cast<double>(std::max<int64_t>(o.course.max_steps, 1)) > static_cast<double>(kMostSamples))
    problems.add("{} steps of {} batches of {} are more samples than can be counted; lower max_steps", o.course.max_steps,
                 o.course.batches_per_step, o.course.batch_size);
}

void check_sequence(const TrainOptions& o, Problems& problems) {
  if (o.step.division.num_places > 1 && o.adapter.dropout > 0)
    problems.add(
        "lora_dropout draws what it drops for all tokens of a sample, and with sequence_size {} no process has them all; take one of "
        "the two out",
        o.step.division.num_places);
}

void check_stage(const TrainOptions& o, Problems& problems) {
  if (o.step.division.zero_stage < 0 || o.step.division.zero_stage > 3)
    problems.add("zero_stage must be 0, 1, 2 or 3, not {}", o.step.division.zero_stage);
  if (o.step.division.row_size > 0 && o.step.division.zero_stage == 0)
    problems.add("shard_size says among how many processes zero_stage divides, and that is 0; set zero_stage, or leave it out");
  if (o.step.division.zero_stage == 0) return;
  if (o.step.division.zero_stage == 3 && waiting_blocks(o.step, o.step_words) > 0)
    problems.add("with zero_stage 3 all blocks wait divided among the processes, and none in main memory; leave blocks_to_swap out");
  if (o.step.division.zero_stage == 3 && !o.output.previews.prompts.empty() && !o.trained.presets.empty() &&
      !o.output.previews.with_presets)
    problems.add(
        "previews without the presets of preset_lora_path read layers anew, and with zero_stage 3 no process has them whole; add "
        "preview_with_presets, or set zero_stage 2");
  if (waiting_blocks(o.step, o.step_words) > 0 && !o.trained.whole.empty())
    problems.add("zero_stage {} divides weights that train, and blocks_to_swap has them wait in main memory; take one of them out",
                 o.step.division.zero_stage);
}

void check_counts(const TrainOptions& o, Problems& problems) {
  check_stage(o, problems);
  check_sequence(o, problems);
  if ((o.output.resume || o.auto_resume) && o.output.overwrite)
    problems.add("resume goes on with a run and overwrite replaces it; take one of them out");
  check_limits(o, problems);
  check_hooks(o, problems);
  if (o.course.max_steps < 0 || (o.course.max_steps == 0 && o.course.num_epochs < 1))
    problems.add("nothing to do: give max_steps or num_epochs of at least 1");
}

/// Refuses values and combinations of which no row speaks.
void check_values(const TrainOptions& o, Problems& problems) {
  if (!(o.step.learning_rate > 0)) problems.add("learning_rate must be above 0, not {}", o.step.learning_rate);
  bool is_half = parse_dtype(o.model.dtype) == c10::kHalf;
  if (is_half && !o.trained.whole.empty())
    problems.add("fp16 is too coarse for weights that train; choose dtype bf16 or fp32, or train an adapter over fp16");
  if (!o.course.replay.empty() && (o.course.batch_size != 1 || o.course.global_batch_size > 1))
    problems.add("replay plays one recorded sample a step; set batch_size to 1, and leave out global_batch_size");
  if (!(o.step.ema_decay >= 0 && o.step.ema_decay < 1)) problems.add("ema_decay must lie between 0 (none) and 1, not {}", o.step.ema_decay);
  if (o.step.ema_decay > 0 && optim::is_schedule_free(optimizer_options(o)))
    problems.add("{} averages what trains already, and ema_decay {} would average it again; take ema_decay out", o.step.optimizer.name,
                 o.step.ema_decay);
  if (o.trained.weights == "remainder" && (o.trained.whole.empty() || parse_dtype(o.model.dtype) != c10::kBFloat16))
    problems.add("trained_weights remainder keeps 16 bits beside bf16 weights that train, and this run has none; take it out");
  if (o.rank_rule.is_on() && o.step_words.graphs == "auto")
    problems.add("cuda_graphs auto records a step once, and tlora_min_rank has each with ranks of its own; take one of the two out");
  if (o.trained.weights == "fp8" && o.trained.whole.empty())
    problems.add("trained_weights fp8 keeps weights that train in FP8, and an adapter's are fp32; take it out, or name trainable_models");
}

/// Asks the rooms whose options they are.
const std::vector<void (*)(const TrainOptions&)>& checks_of_rooms() {
  static const std::vector<void (*)(const TrainOptions&)> kAll{
      [](const auto& o) { check(o.model); },
      [](const auto& o) { check(o.dataset); },
      [](const auto& o) { check_objective(o); },
      [](const auto& o) { adapters::check(adapter_options(o)); },
      [](const auto& o) {
        adapters::check_readers(adapters::parse_layout(o.trained.lora_format), adapters::kind_of_type(o.adapter.type),
                                o.adapter.type == "dora", adapters::parse_norm_axis(o.trained.dora_norm));
      },
      [](const auto& o) { component_rates(o); },
      [](const auto& o) { validation_strengths(o); },
      [](const auto& o) {
        if (!o.plan.device_memory.empty()) parse_size("train", "device_memory", o.plan.device_memory);
      },
      [](const auto& o) {
        if (!o.plan.host_memory.empty()) parse_size("train", "host_memory", o.plan.host_memory);
      },
      [](const auto& o) {
        if (!o.save_dtype.empty()) parse_dtype(o.save_dtype);
      },
      [](const auto& o) { diffusion::check(o.loss); },
      [](const auto& o) { parse_robust_loss(o.robust.type, o.robust.schedule, o.robust.c, o.robust.scale); },
      [](const auto& o) { diffusion::check(o.timesteps); },
      [](const auto& o) { optim::check(optimizer_options(o), schedule_of(o.step, o.course.max_steps), o.step.learning_rate); },
      [](const auto& o) { optim::check(o.step.groups); },
  };
  return kAll;
}

}  // namespace

void check(const TrainOptions& o) {
  auto copy = o;
  config::Fields listed;
  fields(listed, copy);
  Problems problems(listed);
  problems.check_values();
  for (auto* check : {check_task, check_precompute, check_data, check_counts, check_augmentation, check_masks, check_groups,
                      check_embedding, check_presets, check_tell, check_memory, check_values})
    problems.gather([&] { check(o, problems); });
  for (auto* check : checks_of_rooms()) problems.gather([&] { check(o); });
  problems.gather([&] {
    for (const auto& [option, belongs_to] : idle_options(o))
      problems.add("{} has no effect here: it belongs to {}; take it out", option, belongs_to);
  });
  problems.refuse("train");
}

}  // namespace burnish::train
