#include "train/options/settings.h"

#include <fmt/core.h>

#include <algorithm>

#include "adapters/adapter_file.h"
#include "base/count.h"
#include "base/dtype.h"
#include "base/input_error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "checkpoint/state.h"
#include "io/user_cache.h"
#include "train/options/asked.h"
#include "train/options/check.h"
#include "train/options/fields.h"
#include "train/options/meaning.h"
#include "train/options/objective_options.h"
#include "train/samples/open_samples.h"

namespace burnish::train {

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

AheadChoice ahead_choice(const TrainOptions& o) {
  if (o.cache.precompute_timesteps == "auto") return AheadChoice::if_smaller;
  if (o.cache.precompute_timesteps == "on") return AheadChoice::on;
  return o.cache.precompute_timesteps == "blocks" ? AheadChoice::with_first_blocks : AheadChoice::off;
}

/// What of the model the run opens.
models::HubUse hub_use(const TrainOptions& o) {
  if (!trains(o)) return models::HubUse::without_denoiser;
  return reads_samples(o) || has_previews(o) || names_others(o) ? models::HubUse::all : models::HubUse::denoiser_alone;
}

ModelSettings model_settings(const TrainOptions& o) {
  ModelSettings s{.names = {o.model.model, o.model.model_paths, o.model.model_id_with_origin_paths, hub_use(o)},
                  .options = model_options(o.model),
                  .storage = o.model,
                  .trained_in_fp8 = o.trained.weights == "fp8",
                  .first_blocks_apart = trains(o) && o.cache.precompute_timesteps == "blocks"};
  for (const auto& text : o.trained.presets) s.presets.push_back(loras::parse_lora_file(text));
  s.preset_components = split_list(o.trained.preset_components);
  s.options.references = models::ReferencesRead(reference_column(o));
  s.options.extra_inputs = extra_columns(o);
  s.options.init = o.trained.init;
  s.options.latents = o.cache.latents;
  return s;
}

/// The models that the objective has beside the denoiser; a cache is made without them.
std::vector<Companion> companions_of(const TrainOptions& o) {
  const auto& kind = objective_of(o);
  return trains(o) ? kind.companions(o.objective, !o.trained.whole.empty()) : std::vector<Companion>();
}

TrainedSettings trained_settings(const TrainOptions& o) {
  auto adapter = adapter_options(o);
  auto given = o.given;
  if (auto rank = checkpoint_rank(o); rank > 0) {
    adapter.rank = rank;
    given.emplace_back("lora_rank");
  }
  return {.whole = split_list(o.trained.whole),
          .adapted = split_list(o.trained.adapted),
          .experts = split_list(o.trained.experts),
          .lora_checkpoint = o.trained.lora_checkpoint,
          .targets = o.trained.targets == "default" ? std::nullopt : std::optional(o.trained.targets),
          .adapter = adapter,
          .rank_rule = o.rank_rule,
          .given = given,
          .rank_groups = o.trained.rank_groups,
          .alpha_groups = o.trained.alpha_groups,
          .layout = adapters::parse_layout(o.trained.lora_format),
          .from_scratch = o.trained.init == "random",
          .learning_rate = o.step.learning_rate,
          .component_rates = component_rates(o),
          .words = words_settings(o.embedding),
          .seed = static_cast<uint64_t>(o.model.seed),
          .companions = companions_of(o)};
}

data::DatasetOptions dataset_options(const TrainOptions& o, const std::vector<DatasetChoice>& datasets) {
  data::DatasetOptions options{
      .data_file_keys = o.data.file_keys, .skip_bad_samples = o.data.on_bad_sample == "skip", .num_workers = o.data.num_workers};
  const auto& kind = objective_of(o);
  for (const auto& name : kind.pictures) options.columns.push_back(further_picture(name));
  add_masks(options.columns, o.masks.from, o.masks.column);
  const auto shares = kind.shares(o.objective);
  for (const auto& dataset : datasets) {
    for (const auto& subset : subsets_of(dataset, o.cache.variants)) {
      for (const auto& share : shares) {
        auto& one = options.subsets.emplace_back(subset);
        one.loss_weight *= share.loss_weight;
        one.visits.num_repeats *= share.num_repeats;
        one.prompt = share.prompt;
      }
    }
  }
  return options;
}

/// Held-out pictures are seen in one way.
data::DatasetOptions held_out_options(const TrainOptions& o) {
  if (o.data.validation_metadata_path.empty()) return {};
  auto held_out = o.dataset;
  held_out.subset.metadata_path = o.data.validation_metadata_path;
  held_out.subset.augmentation = {};
  return dataset_options(o, {held_out});
}

DataSettings data_settings(const TrainOptions& o) {
  DataSettings s;
  s.from_pictures = encodes(o);
  if (s.from_pictures) {
    s.pictures = dataset_options(o, datasets_of(o));
  } else {
    s.is_import = !o.cache.import_diffsynth.empty();
    s.list_folder = s.is_import ? o.cache.import_diffsynth : o.data.base_path;
  }
  s.held_out = held_out_options(o);
  s.caption_dropout = o.dataset.subset.visits.captions.dropout;
  keep_in(s, s.from_pictures || s.is_import ? cache_folder(o) : o.cache.path);
  s.inputs = std::make_shared<InputTable>(input_table(o.objective));
  s.cache_bytes = o.cache.budget * kGiB;
  s.weight_bytes = o.cache.memory_budget * kGiB;
  return s;
}

ObjectiveSettings objective_settings(const TrainOptions& o) {
  return {.kind = &objective_of(o),
          .own = o.objective,
          .timesteps = o.timesteps,
          .loss = o.loss,
          .sample_loss = {parse_robust_loss(o.robust.type, o.robust.schedule, o.robust.c, o.robust.scale),
                          {o.masks.from != "none", o.masks.unmasked_weight, o.masks.per_area}},
          .noise_offset = o.noise_offset,
          .runs_all_alike = o.step.division.zero_stage == 3,
          .draws_latents = o.cache.latents == "sample",
          .dtype = parse_dtype(o.model.dtype),
          .device = model_options(o.model).device,
          .seed = static_cast<uint64_t>(o.model.seed)};
}

StepSettings step_settings(const TrainOptions& o) {
  auto step = with_words(o.step, o.step_words);
  step.schedule = schedule_of(o.step, o.course.max_steps);
  step.optimizer = optimizer_options(o);
  step.scales_loss = parse_dtype(o.model.dtype) == c10::kHalf;
  step.draws_itself = objective_of(o).draws_itself;
  return step;
}

DrawnBy drawn_by(const TrainOptions& o) { return objective_of(o).drawn_by(o.objective); }

OutputSettings output_settings(const TrainOptions& o) {
  auto s = o.output;
  s.folder = o.output_path;
  s.validation_strengths = validation_strengths(o);
  s.previews.seed = static_cast<uint64_t>(o.model.seed);
  s.previews.by = drawn_by(o);
  s.previews.frame_rate = o.dataset.frame_rate;
  s.files.dtype = parse_dtype(o.save_dtype.empty() ? o.model.dtype : o.save_dtype);
  s.resume = o.output.resume || (o.auto_resume && checkpoint::is_there(s.state()));
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
  auto course = o.course;
  course.seed = static_cast<uint64_t>(o.model.seed);
  return course;
}

PlanSettings plan_settings(const TrainOptions& o) {
  auto size = [](const char* option, const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(parse_size("train", option, text));
  };
  return {.refuses = o.plan.check == "on",
          .device_bytes = size("device_memory", o.plan.device_memory),
          .host_bytes = size("host_memory", o.plan.host_memory),
          .is_unified = o.plan.unified_memory,
          .processes_here = o.model.local_size};
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

Settings understood(const TrainOptions& o) {
  check(o);
  auto settings = Settings{.given = o,
                           .together = {},
                           .makes_cache = !trains(o),
                           .model = model_settings(o),
                           .trained = trained_settings(o),
                           .data = data_settings(o),
                           .objective = objective_settings(o),
                           .schedule = {o.cache.precompute == "none", ahead_choice(o)},
                           .course = course_settings(o),
                           .step = step_settings(o),
                           .output = output_settings(o),
                           .plan = plan_settings(o)};
  settings.objective.has_strengths = strengths_vary(settings.data);
  settings.data.portion = {o.cache.num_processes, o.cache.process_index};
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

static bool has_to_train(config::LearnedBy by, bool has_adapters, bool has_whole) {
  using config::LearnedBy;
  return by == LearnedBy::all || (by == LearnedBy::adapters ? has_adapters : has_whole);
}

/// Options that decide what is learned of a sample and are not at their defaults: those without words of their own as ", name value", then
/// the objective, then the others.
static std::string learned_text(TrainOptions options, bool has_adapters, bool has_whole) {
  TrainOptions defaults;
  config::Fields given, otherwise;
  fields(given, options);
  fields(otherwise, defaults);
  std::string by_name, in_words;
  for (size_t i = 0; i < given.list().size(); ++i) {
    const auto& field = given.list()[i];
    if (!field.decides_what_is_learned || !has_to_train(field.learned_by, has_adapters, has_whole)) continue;
    if (field.learned_as) {
      if (auto words = field.learned_as(); !words.empty()) in_words += ", " + words;
    } else if (auto value = config::value_text(field); value != config::value_text(otherwise.list()[i])) {
      by_name += fmt::format(", {} {}", field.name, value);
    }
  }
  return by_name + objective_fingerprint(options) + in_words;
}

std::string fingerprint(const TrainOptions& o, int64_t global_batch_size, const std::string& trained, bool has_adapters, bool has_whole,
                        int64_t num_samples) {
  // The number counts the ways in which visits have been shuffled: a run goes on in the order in which it began.
  return fmt::format(
      "seed {}, order 3, batch_size {}, gradient_accumulation_steps {}, dataset_repeat {}, samples {}, dtype {}, optimizer {}, {}{}",
      o.model.seed, global_batch_size, o.course.batches_per_step, o.course.num_repeats, num_samples, o.model.dtype, o.step.optimizer.name,
      trained, learned_text(o, has_adapters, has_whole));
}

}  // namespace burnish::train
