#include "train/options/settings.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "adapters/adapter_file.h"
#include "base/count.h"
#include "base/dtype.h"
#include "base/input_error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "checkpoint/state.h"
#include "io/user_cache.h"
#include "train/options/check.h"
#include "train/options/fields.h"
#include "train/options/meaning.h"
#include "train/options/objective_options.h"
#include "train/samples/open_samples.h"

namespace burnish::train {

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

AheadChoice ahead_choice(const TrainOptions& o) {
  if (o.precompute_timesteps == "auto") return AheadChoice::if_smaller;
  if (o.precompute_timesteps == "on") return AheadChoice::on;
  return o.precompute_timesteps == "blocks" ? AheadChoice::with_first_blocks : AheadChoice::off;
}

/// What of the model the run opens.
models::HubUse hub_use(const TrainOptions& o) {
  if (!trains(o)) return models::HubUse::without_denoiser;
  auto trained = o.trainable_models + "," + o.lora_base_model;
  bool trains_encoder = o.embedding.has_words() || trained.find("text_encoder") != trained.npos;
  bool encodes_some = encodes(o) || trains_encoder || !o.preview_prompts.empty() || !o.validation_metadata_path.empty();
  return encodes_some ? models::HubUse::all : models::HubUse::denoiser_alone;
}

ModelSettings model_settings(const TrainOptions& o) {
  ModelSettings s{.names = {o.model.model, o.model.model_paths, o.model.model_id_with_origin_paths, hub_use(o)},
                  .options = model_options(o.model),
                  .storage = o.model,
                  .trained_in_fp8 = o.trained_weights == "fp8",
                  .first_blocks_apart = trains(o) && o.precompute_timesteps == "blocks"};
  for (const auto& text : o.preset_lora_path) s.presets.push_back(loras::parse_lora_file(text));
  s.preset_components = split_list(o.preset_lora_model);
  s.reference_column = reference_column(o);
  s.options.references = !s.reference_column.empty();
  s.options.extra_inputs = extra_columns(o);
  s.options.init = o.init;
  s.options.latents = o.latents;
  return s;
}

/// The models that the objective has beside the denoiser; a cache is made without them.
std::vector<Companion> companions_of(const TrainOptions& o) {
  const auto& kind = objective_of(o);
  return trains(o) ? kind.companions(o.objective, !o.trainable_models.empty()) : std::vector<Companion>();
}

TrainedSettings trained_settings(const TrainOptions& o) {
  auto adapter = adapter_options(o);
  auto given = o.given;
  if (auto rank = checkpoint_rank(o); rank > 0) {
    adapter.rank = rank;
    given.emplace_back("lora_rank");
  }
  return {.whole = split_list(o.trainable_models),
          .adapted = split_list(o.lora_base_model),
          .experts = split_list(o.experts),
          .lora_checkpoint = o.lora_checkpoint,
          .targets = o.lora_target_modules == "default" ? std::nullopt : std::optional(o.lora_target_modules),
          .adapter = adapter,
          .rank_rule = o.rank_rule,
          .given = given,
          .rank_groups = o.lora_rank_groups,
          .alpha_groups = o.lora_alpha_groups,
          .layout = adapters::parse_layout(o.lora_format),
          .from_scratch = o.init == "random",
          .learning_rate = o.learning_rate,
          .component_rates = component_rates(o),
          .words = words_settings(o.embedding),
          .seed = static_cast<uint64_t>(o.model.seed),
          .companions = companions_of(o)};
}

data::MaskSource mask_source(const TrainOptions& o) {
  using From = data::MaskSource::From;
  if (o.masked_loss == "column") return {From::column, o.mask_column};
  return {o.masked_loss == "alpha" ? From::alpha : From::nothing, ""};
}

data::DatasetOptions dataset_options(const TrainOptions& o, const std::vector<DatasetChoice>& datasets) {
  data::DatasetOptions options{.data_file_keys = o.data_file_keys,
                               .skip_bad_samples = o.on_bad_sample == "skip",
                               .num_workers = o.dataset_num_workers,
                               .mask = mask_source(o)};
  const auto& kind = objective_of(o);
  for (const auto& name : kind.pictures) options.columns.push_back(further_picture(name));
  const auto shares = kind.shares(o.objective);
  for (const auto& dataset : datasets) {
    for (const auto& subset : subsets_of(dataset, o.cache_variants)) {
      for (const auto& share : shares) {
        auto& one = options.subsets.emplace_back(subset);
        one.loss_weight *= share.loss_weight;
        one.visits.num_repeats *= share.num_repeats;
      }
    }
  }
  return options;
}

/// Held-out pictures are seen in one way.
data::DatasetOptions held_out_options(const TrainOptions& o) {
  if (o.validation_metadata_path.empty()) return {};
  auto held_out = o.dataset;
  held_out.metadata_path = o.validation_metadata_path;
  held_out.augmentation = {};
  return dataset_options(o, {held_out});
}

DataSettings data_settings(const TrainOptions& o) {
  DataSettings s;
  s.from_pictures = encodes(o);
  if (s.from_pictures) {
    s.pictures = dataset_options(o, datasets_of(o));
  } else {
    s.is_import = !o.import_diffsynth.empty();
    s.list_folder = s.is_import ? o.import_diffsynth : o.dataset_base_path;
  }
  s.held_out = held_out_options(o);
  s.caption_dropout = o.dataset.caption_dropout;
  keep_in(s, s.from_pictures || s.is_import ? cache_folder(o) : o.cache_path);
  s.inputs = std::make_shared<InputTable>(input_table(o.objective));
  s.cache_bytes = o.cache_budget * kGiB;
  s.weight_bytes = o.memory_budget * kGiB;
  return s;
}

ObjectiveSettings objective_settings(const TrainOptions& o) {
  return {.kind = &objective_of(o),
          .own = o.objective,
          .timesteps = o.timesteps,
          .loss = o.loss,
          .sample_loss = {parse_robust_loss(o.loss_type, o.huber_schedule, o.huber_c, o.huber_scale),
                          {o.masked_loss != "none", o.unmasked_weight, o.normalize_masked_area_loss}},
          .noise_offset = o.noise_offset,
          .runs_all_alike = o.zero_stage == 3,
          .draws_latents = o.latents == "sample",
          .dtype = parse_dtype(o.model.dtype),
          .device = model_options(o.model).device,
          .seed = static_cast<uint64_t>(o.model.seed)};
}

MemorySettings memory_settings(const TrainOptions& o) {
  bool has_budget = !o.activation_budget.empty();
  return {.recompute_every = recomputes(o) && !has_budget ? o.gradient_checkpointing_interval : 0,
          .activation_bytes = has_budget ? parse_size("train", "activation_budget", o.activation_budget) : 0,
          .checkpoints_in_host = o.use_gradient_checkpointing_offload,
          .updates_in_backward = o.fused_backward_pass,
          .optimizer_in_host = o.enable_optimizer_cpu_offload,
          .paged_blocks = waiting_blocks(o),
          .blocks_on_disk = o.blocks_on_disk,
          .feed_forward_tokens = o.feed_forward_chunk_size};
}

StepSettings step_settings(const TrainOptions& o) {
  return {.learning_rate = o.learning_rate,
          .max_grad_norm = o.max_grad_norm,
          .ema_decay = o.ema_decay,
          .schedule = schedule_options(o, o.max_steps),
          .optimizer = optimizer_options(o),
          .groups = o.groups,
          .scales_loss = parse_dtype(o.model.dtype) == c10::kHalf,
          .replays = o.graphs == "auto",
          .memory = memory_settings(o),
          .division = {{.ordered = o.reduction == "ordered"}, o.zero_stage, o.shard_size, o.sequence_size}};
}

DrawnBy drawn_by(const TrainOptions& o) { return objective_of(o).drawn_by(o.objective); }

OutputSettings output_settings(const TrainOptions& o) {
  OutputSettings s{.folder = o.output_path,
                   .name = o.output_name,
                   .save = {o.save_steps, o.save_epochs, o.save_minutes, o.keep_last, o.keep_best},
                   .validation_strengths = validation_strengths(o),
                   .validation_steps = o.validation_steps,
                   .previews = {o.preview_prompts, o.preview_steps, o.preview_num_inference_steps, static_cast<uint64_t>(o.model.seed),
                                o.preview_format, drawn_by(o), o.preview_with_presets}};
  s.logs.tensorboard = o.enable_tensorboard_log;
  s.logs.csv = o.enable_csv_log;
  s.files.dtype = parse_dtype(o.save_dtype.empty() ? o.model.dtype : o.save_dtype);
  s.resume = o.resume || (o.auto_resume && checkpoint::is_there(s.state()));
  s.overwrite = o.overwrite;
  s.files.described = {{"title", o.metadata_title},
                       {"author", o.metadata_author},
                       {"description", o.metadata_description},
                       {"license", o.metadata_license},
                       {"tags", o.metadata_tags}};
  std::erase_if(s.files.described, [](const auto& entry) { return entry.second.empty(); });
  return s;
}

/// What this process does of the batches: neighbours share out the tokens of the same samples.
Portion portion_of_batches(const DivisionSettings& division, const Portion& together) {
  const auto num_places = division.num_places;
  return {together.num_processes / num_places, together.process_index / num_places, num_places, together.process_index % num_places,
          division.zero_stage >= 2};
}

/// Processes that train together share out the encoding of the data as well.
Portion portion_of_data(const Portion& alone, const Portion& together) {
  if (together.num_processes == 1) return alone;
  if (alone.num_processes > 1)
    config_error("train", "num_processes is for processes that are started by themselves, and these {} were started together; leave it out",
                 together.num_processes);
  return together;
}

CourseSettings course_settings(const TrainOptions& o) {
  return {.batch_size = o.batch_size,
          .global_batch_size = o.global_batch_size,
          .num_repeats = o.dataset_repeat,
          .batches_per_step = o.gradient_accumulation_steps,
          .max_steps = o.max_steps,
          .num_epochs = o.num_epochs,
          .replay = o.replay,
          .seed = static_cast<uint64_t>(o.model.seed),
          .stratified_times = o.stratified_timesteps,
          .prior_loss_weight = o.prior_loss_weight};
}

PlanSettings plan_settings(const TrainOptions& o) {
  auto size = [](const char* option, const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(parse_size("train", option, text));
  };
  return {o.plan == "on", size("device_memory", o.device_memory), size("host_memory", o.host_memory), o.model.local_size};
}

/// Refuses what several processes cannot do together.
void check_together(const Settings& s, Portion together) {
  if (s.makes_cache) return;
  for (const auto& [option, size] : {std::pair("shard_size", s.step.division.row_size), {"sequence_size", s.step.division.num_places}}) {
    if (size > 0 && together.num_processes % size != 0)
      config_error("train", "{} {} does not divide the {} of this run; set it to how many a machine has, or start others", option, size,
                   count_of(together.num_processes, "process", "processes"));
  }
  if (together.num_processes == 1) return;
  if (s.step.memory.updates_in_backward)
    config_error("train", "fused_backward_pass updates a parameter before the gradients of the {} processes are summed; take it out",
                 together.num_processes);
}

/// What is no copy of the denoiser, and shares out tokens as it does, reads whole pictures of its blocks.
void check_companions(const Settings& s) {
  if (s.step.division.num_places == 1) return;
  for (const auto& companion : s.trained.companions) {
    if (companion.recipe)
      config_error("train", "the {} of {} reads all tokens behind blocks, and sequence_size shares them out; take one of the two out",
                   companion.name, s.objective.kind->word);
  }
}

}  // namespace

void keep_in(DataSettings& data, const std::filesystem::path& folder) {
  data.cache_folder = folder.string();
  data.pictures.checks_folder = folder.empty() ? io::user_cache() : folder;
  data.held_out.checks_folder = data.pictures.checks_folder;
}

optim::ScheduleOptions schedule_of(const Settings& settings, int64_t num_steps) {
  auto schedule = settings.step.schedule;
  schedule.max_steps = num_steps;
  if (settings.given.lr_warmup_ratio > 0) schedule.warmup_steps = schedule_options(settings.given, num_steps).warmup_steps;
  return schedule;
}

Settings understood(const TrainOptions& o) {
  check(o);
  auto settings = Settings{.given = o,
                           .together = {},
                           .makes_cache = !trains(o),
                           .model = model_settings(o),
                           .trained = trained_settings(o),
                           .data = data_settings(o),
                           .objective = objective_settings(o),
                           .schedule = {o.precompute == "none", ahead_choice(o)},
                           .course = course_settings(o),
                           .step = step_settings(o),
                           .output = output_settings(o),
                           .plan = plan_settings(o)};
  settings.objective.has_strengths = strengths_vary(settings.data);
  settings.data.portion = {o.num_processes, o.process_index};
  check_companions(settings);
  return settings;
}

Settings shared_out(Settings settings, Portion together) {
  settings.together = together;
  settings.course.portion = portion_of_batches(settings.step.division, together);
  settings.data.portion = portion_of_data(settings.data.portion, together);
  // What one process computed of a sample the others read from disk.
  if (together.num_processes > 1 && settings.data.from_pictures && settings.data.cache_folder.empty())
    settings.data.cache_folder = settings.output.folder / "cache";
  check_together(settings, together);
  return settings;
}

Settings settle(const TrainOptions& o, Portion together) { return shared_out(understood(o), together); }

/// Options that decide what is learned of a sample and are not at their defaults, as ", name value".
static std::string learned_text(TrainOptions options) {
  TrainOptions defaults;
  config::Fields given, otherwise;
  fields(given, options);
  fields(otherwise, defaults);
  std::string text;
  for (size_t i = 0; i < given.list().size(); ++i) {
    const auto& field = given.list()[i];
    if (!field.decides_what_is_learned) continue;
    if (auto value = config::value_text(field); value != config::value_text(otherwise.list()[i]))
      text += fmt::format(", {} {}", field.name, value);
  }
  return text;
}

std::string fingerprint(const TrainOptions& o, int64_t global_batch_size, const std::string& trained, bool has_adapters, bool has_whole,
                        int64_t num_samples) {
  auto more = learned_text(o) + objective_fingerprint(o);
  if (o.latents != "mean") more += ", latents " + o.latents;
  if (auto column = reference_column(o); !column.empty()) more += ", references " + column;
  if (auto columns = extra_columns(o); !columns.empty()) more += fmt::format(", extra inputs {}", fmt::join(columns, " "));
  if (has_adapters && o.adapter.alpha > 0) more += fmt::format(", alpha {}", o.adapter.alpha);
  if (has_adapters && !o.lora_rank_groups.empty()) more += ", rank groups " + o.lora_rank_groups;
  if (has_adapters && !o.lora_alpha_groups.empty()) more += ", alpha groups " + o.lora_alpha_groups;
  if (has_adapters && o.adapter.use_rslora) more += ", rank-stabilised";
  if (has_whole && o.trained_weights != "stochastic") more += ", weights " + o.trained_weights;
  if (o.ema_decay > 0) more += fmt::format(", ema_decay {}", o.ema_decay);
  if (o.loss_type != "l2") more += fmt::format(", {} {} {} {}", o.loss_type, o.huber_schedule, o.huber_c, o.huber_scale);
  if (o.prior_loss_weight != 1) more += fmt::format(", prior_loss_weight {}", o.prior_loss_weight);
  if (o.masked_loss != "none")
    more += fmt::format(", masked_loss {} {}{}", o.masked_loss, o.unmasked_weight, o.normalize_masked_area_loss ? " per area" : "");
  if (!o.optimizer_args.empty()) more += ", optimizer_args " + o.optimizer_args;
  if (o.cautious) more += ", cautious";
  // The number counts the ways in which visits have been shuffled: a run goes on in the order in which it began.
  return fmt::format(
      "seed {}, order 3, batch_size {}, gradient_accumulation_steps {}, dataset_repeat {}, samples {}, dtype {}, optimizer {}, {}{}",
      o.model.seed, global_batch_size, o.gradient_accumulation_steps, o.dataset_repeat, num_samples, o.model.dtype, o.optimizer, trained,
      more);
}

}  // namespace burnish::train
