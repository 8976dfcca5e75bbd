#include "train/options/fields.h"

#include "train/course/fields.h"
#include "train/options/asked.h"
#include "train/options/objective_options.h"
#include "train/options/rows.h"

namespace burnish::train {

using config::Level;

namespace {

/// How the samples of a cache were encoded is settled.
constexpr const char* kCacheMaker = "the command that makes the cache";

/// DiffSynth-Studio's options that a pasted command may hold: those that change nothing here, and those that would.
void diffsynth_options(config::Fields& f) {
  f.title_no_effect("Accepted for DiffSynth-Studio commands, no effect here");
  f.no_effect("remove_prefix_in_ckpt", true, "files always have the names that diffusers reads");
  f.no_effect("align_to_opensource_format", false, "--lora_format kohya writes those names");
  f.no_effect("find_unused_parameters", false, "gradients of several processes add up whether or not a step uses a layer");
  f.no_effect("initialize_model_on_cpu", false, "weights are read straight to the device");
  f.no_effect("enable_npu_patch", false, "the device is chosen with --device");
  for (const char* name : {"enable_swanlab_log", "enable_wandb_log"})
    f.no_effect(name, false, "nothing is sent elsewhere; the log is log.jsonl in the run folder");
  for (const char* name : {"swanlab_project", "wandb_project"}) f.no_effect(name, true, "the same");

  f.refused("cpu_offload_split_threshold", "weights are moved to main memory block by block with --blocks_to_swap");
  f.no_effect("offload_models", true, "a stage loads only the models it runs");
  f.refused("base_weights_multiplier", "write the strength behind the file: --base_weights FILE:0.8");
  for (const char* name : {"template_model_id_or_path", "enable_lora_hot_loading"}) f.refused(name, "no plug-in models are trained");
}

/// What the options of a dataset belong to in a run: a dataset_config begins with them, and may add what they need; and a cache was made
/// with those that its visits do not read.
void dataset_conditions(config::Fields& f, const TrainOptions& o) {
  f.each([&o](config::Field& field) {
    if (field.dataset_key != field.name) return;  // those that are of a run as well have other keys
    for (auto& condition : field.conditions)
      condition.counts = [&o, alone = condition.counts] { return !o.data.config.empty() || alone(); };
    if (field.is_of_visits) return;
    const bool is_drawn = field.name == "frame_rate";  // previews play as fast as the clips that are trained
    field.conditions.insert(field.conditions.begin(),
                            {.belongs_to = kCacheMaker,
                             .counts = [&o, is_drawn] { return reads_samples(o) || (is_drawn && has_previews(o)); },
                             .may_be_repeated = true});
  });
}

/// What the options of families belong to in a run, by what of a model they are about.
void model_conditions(config::Fields& f, const TrainOptions& o) {
  using About = models::Option::About;
  for (const auto& name : models::options_about(About::references))
    f.row(name).counts_when("extra_inputs that name reference pictures", [&o] { return has_references(o); });
  for (const auto& name : models::options_about(About::prompts)) f.row(name).matters_when(kCacheMaker, [&o] { return reads_captions(o); });
  for (const auto& name : models::options_about(About::tile_size))
    f.row(name).matters_when(kCacheMaker, [&o] { return runs_autoencoder(o); });
  for (const char* name : {"model", "dtype", "fp8_models", "seed"}) f.row(name).level(Level::first_run);
}

void model_fields(config::Fields& f, TrainOptions& o) {
  fields(f, o.model);
  model_conditions(f, o);
}

void data_fields(config::Fields& f, TrainOptions& o) {
  fields(f, o.data);
  f.row("data_file_keys").matters_when(kCacheMaker, [&o] { return reads_samples(o); });
  fields(f, o.dataset);
  dataset_conditions(f, o);
  fields(f, o.cache);
  f.row("latents").learned_as([&o] { return o.cache.latents == "mean" ? "" : "latents " + o.cache.latents; });
}

void task_fields(config::Fields& f, TrainOptions& o) {
  f.group("Task");
  objective_fields(f, o.task, o.extra_inputs, o.objective);
  f.row("extra_inputs").learned_as([&o] { return input_fingerprint(o); });
}

}  // namespace

void fields(config::Fields& f, TrainOptions& o) {
  model_fields(f, o);
  data_fields(f, o);
  task_fields(f, o);
  trained_fields(f, o);
  fields(f, o.course);
  loss_fields(f, o);
  fields(f, o.step, o.step_words);
  output_fields(f, o);
  diffsynth_options(f);
}

}  // namespace burnish::train
