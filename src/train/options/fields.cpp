#include "train/options/fields.h"

#include <initializer_list>

#include "adapters/lokr.h"
#include "base/dtype.h"
#include "base/limits.h"
#include "data/drawn_file.h"
#include "train/options/meaning.h"
#include "train/options/objective_options.h"

namespace burnish::train {

using config::Level;

namespace {

bool samples_with(const TrainOptions& o, std::initializer_list<const char*> schemes) {
  return std::ranges::find(schemes, o.timesteps.mode) != schemes.end();
}
bool shifts(const TrainOptions& o) {
  return samples_with(o, {"shift", "sigma", "logit_normal", "mode", "heavy_tail", "cos_map", "inverted_parabola", "logistic", "beta"});
}
bool scales_normals(const TrainOptions& o) { return samples_with(o, {"sigmoid", "shift", "flux_shift", "qwen_shift", "krea2_shift"}); }
bool is_logit_normal(const TrainOptions& o) { return samples_with(o, {"logit_normal", "logsnr"}); }
bool has_mode(const TrainOptions& o) { return samples_with(o, {"mode", "heavy_tail"}); }
bool has_noising(const TrainOptions& o) { return samples_with(o, {"inverted_parabola", "logistic", "beta"}); }

bool is_robust(const TrainOptions& o) { return o.loss_type != "l2"; }
bool scales_threshold(const TrainOptions& o) { return is_robust(o) && o.huber_schedule != "snr"; }

bool has_adapters(const TrainOptions& o) {
  return (o.trainable_models.empty() && !o.embedding.has_words()) || !o.lora_base_model.empty() || !o.lora_checkpoint.empty();
}
bool may_be(const TrainOptions& o, const char* type) { return o.adapter.type == type || !o.lora_checkpoint.empty(); }
bool is_lokr(const TrainOptions& o) { return has_adapters(o) && may_be(o, "lokr"); }
bool is_dora(const TrainOptions& o) { return has_adapters(o) && may_be(o, "dora"); }
bool trains_encoders(const TrainOptions& o) {
  auto names = o.trainable_models + "," + o.lora_base_model;
  return o.embedding.has_words() || !o.lora_checkpoint.empty() || names.find("encoder") != names.npos || names.find("vae") != names.npos;
}

/// Rates of named components are judged by their names.
bool has_other_rates(const TrainOptions& o) { return o.text_encoder_lr.find('=') != std::string::npos || trains_encoders(o); }

bool draws_times(const TrainOptions& o) { return objective_of(o).draws_times; }

bool has_mask_column(const TrainOptions& o) { return o.masked_loss == "column"; }
bool has_references(const TrainOptions& o) { return !reference_column(o).empty(); }
bool has_previews(const TrainOptions& o) { return !o.preview_prompts.empty(); }

bool reads_samples(const TrainOptions& o) { return encodes(o) || !o.validation_metadata_path.empty(); }
bool reads_captions(const TrainOptions& o) { return reads_samples(o) || has_previews(o) || trains_encoders(o); }
bool runs_autoencoder(const TrainOptions& o) { return reads_captions(o); }
/// How the samples of a cache were encoded is settled.
constexpr const char* kCacheMaker = "the command that makes the cache";

}  // namespace

/// DiffSynth-Studio's options that a pasted command may hold: those that change nothing here, and those that would.
static void diffsynth_options(config::Fields& f) {
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

static void memory_fields(config::Fields& f, TrainOptions& o) {
  f("use_gradient_checkpointing", o.use_gradient_checkpointing, "recompute blocks in backward to save memory").level(Level::first_run);
  f("gradient_checkpointing_interval", o.gradient_checkpointing_interval,
    "recompute one block of so many, the first of them; the others keep what backward needs")
      .at_least(1);
  f("activation_budget", o.activation_budget,
    "what forward may leave for backward, as 6GiB: what is computed again instead is chosen so that it is the least work");
  f("use_gradient_checkpointing_offload", o.use_gradient_checkpointing_offload,
    "recompute blocks, and keep their inputs in main memory until backward",
    {"cpu_offload_checkpointing", "gradient_checkpointing_cpu_offload"});
  f("fused_backward_pass", o.fused_backward_pass,
    "update every parameter inside backward and free its gradient at once; max_grad_norm then clips every tensor by its own norm");
  f("cuda_graphs", o.graphs,
    "off, or auto: forward and backward of each shape of batches are recorded as a CUDA graph and launched as a whole, and what cannot be "
    "recorded runs as usual")
      .one_of({"off", "auto"});
  f("reduction", o.reduction,
    "how gradients of several processes are summed: fast, or ordered, which gives the same bits for 1, 2, 4, 8 ... processes")
      .one_of({"fast", "ordered"});
  f("zero_stage", o.zero_stage,
    "what is divided among several processes: 0 nothing, 1 the optimizer's states, averages and exact values, 2 gradients as well, 3 the "
    "weights of the denoiser's blocks as well, frozen or trained");
  f("shard_size", o.shard_size,
    "zero_stage divides among so many neighbours, as the processes of a machine, and each such row of processes has all; 0: among all")
      .at_least(0)
      .level(Level::all);
  f("sequence_size", o.sequence_size,
    "so many neighbours train on the same samples, each on a part of their tokens, with all heads of attention shared out between them")
      .at_least(1);
  f("enable_optimizer_cpu_offload", o.enable_optimizer_cpu_offload, "keep the optimizer's states in main memory");
  f("blocks_to_swap", o.blocks_to_swap,
    "so many of the denoiser's blocks wait in main memory and are brought to the device one ahead of their use")
      .at_least(0)
      .at_most(kMostBlocksNamed)
      .level(Level::first_run);
  f("enable_model_cpu_offload", o.enable_model_cpu_offload, "blocks_to_swap of all the denoiser's blocks");
  f("blocks_on_disk", o.blocks_on_disk, "of blocks_to_swap, so many wait in the model's file instead, which frozen blocks are read from")
      .at_least(0)
      .at_most(kMostBlocksNamed);
  f("feed_forward_chunk_size", o.feed_forward_chunk_size,
    "the denoiser's feed-forward layers take so many tokens of a sample at a time, and backward computes them again; 0: all")
      .at_least(0)
      .in("tokens");
}

static void optimizer_fields(config::Fields& f, TrainOptions& o) {
  f("optimizer", o.optimizer,
    "adamw, adamw8bit, ademamix, ademamix8bit, adafactor, automagic, lion, prodigy, prodigy_schedulefree, adamw_schedulefree, came or muon")
      .known({"adamw", "adamw8bit", "ademamix", "ademamix8bit", "adafactor", "automagic", "lion", "prodigy", "prodigy_schedulefree",
              "adamw_schedulefree", "came", "muon"})
      .level(Level::first_run);
  f("optimizer_args", o.optimizer_args, "comma list of key=value, the optimizer's own numbers: betas=0.9,0.99,eps=1e-8");
  f("cautious", o.cautious,
    "leave out of every update what goes against the gradient of its step, of any optimizer without averages of its own");
  f("weight_decay", o.weight_decay, "decoupled weight decay");
  f("lr_scheduler", o.schedule.name,
    "constant, linear, cosine, cosine_with_restarts, polynomial, rex, warmup_stable_decay or inverse_sqrt, each after the warm-up")
      .known({"constant", "linear", "cosine", "cosine_with_restarts", "polynomial", "rex", "warmup_stable_decay", "inverse_sqrt"});
  f("lr_warmup_steps", o.schedule.warmup_steps, "steps over which the learning rate rises").at_most(kMostSteps).in("steps");
  f("lr_warmup_ratio", o.lr_warmup_ratio, "share of the run's steps over which the learning rate rises, in place of lr_warmup_steps")
      .at_least(0)
      .at_most(1);
  f("lr_scheduler_min_lr_ratio", o.schedule.min_lr_ratio, "share of the learning rate at which the schedule ends");
  f("lr_scheduler_num_cycles", o.schedule.num_cycles, "cycles of lr_scheduler cosine_with_restarts");
  f("lr_scheduler_power", o.schedule.power, "exponent of lr_scheduler polynomial").level(Level::all);
  f("lr_decay_steps", o.schedule.decay_steps,
    "the last so many steps of lr_scheduler warmup_stable_decay, in which the rate falls; 0 takes a tenth of the run")
      .at_most(kMostSteps)
      .in("steps")
      .level(Level::all);
  f("lr_groups", o.groups.lr_groups,
    "comma list of name=rate for components, layers or regular expressions: text_encoder=5e-5,.*to_q.*=2e-4");
  f("weight_decay_groups", o.groups.weight_decay_groups, "comma list of name=decay for components, layers or regular expressions: .*bias=0")
      .level(Level::all);
  f("loraplus_lr_ratio", o.groups.loraplus_lr_ratio, "LoRA+: the learning rate of LoRA's B over that of its A, 16 say; 0 is off");
}

static void loss_fields(config::Fields& f, TrainOptions& o) {
  f("timestep_sampling", o.timesteps.mode,
    "diffsynth, uniform, sigmoid, shift, flux_shift, qwen_shift, krea2_shift, ideogram4_shift, logsnr, sigma, logit_normal, mode, "
    "heavy_tail, cos_map, inverted_parabola, logistic, beta or lognorm_blend; default takes the model's own")
      .known({"default", "diffsynth", "uniform", "sigmoid", "shift", "flux_shift", "qwen_shift", "krea2_shift", "ideogram4_shift", "logsnr",
              "sigma", "logit_normal", "mode", "heavy_tail", "cos_map", "inverted_parabola", "logistic", "beta", "lognorm_blend"})
      .decides_what_is_learned();
  f("stratified_timesteps", o.stratified_timesteps,
    "spread the times of an optimizer step evenly over their distribution: of N samples each draws in an Nth of it of its own")
      .decides_what_is_learned()
      .counts_when("tasks that draw a time for each sample (sft, dpo)", [&o] { return draws_times(o); });
  f("loss_weighting", o.loss.weighting, "diffsynth, uniform, sigma_sqrt, cosmap or debiased; default takes the model's own")
      .known({"default", "diffsynth", "uniform", "sigma_sqrt", "cosmap", "debiased"})
      .decides_what_is_learned();
  f("min_snr_gamma", o.loss.min_snr_gamma, "gamma of Min-SNR loss weights, of models with discrete timesteps; 0 is off")
      .decides_what_is_learned();
  f("loss_type", o.loss_type, "l2, huber or smooth_l1: how much large errors count").known({"l2", "huber", "smooth_l1"});
  f("huber_schedule", o.huber_schedule, "how huber's and smooth_l1's threshold goes with time: constant, exponential or snr")
      .known({"constant", "exponential", "snr"})
      .counts_when("loss_type huber and smooth_l1", [&o] { return is_robust(o); })
      .level(Level::all);
  f("huber_c", o.huber_c, "the threshold of huber and smooth_l1, above which errors count less than by their square")
      .counts_when("loss_type huber and smooth_l1", [&o] { return is_robust(o); });
  f("huber_scale", o.huber_scale, "factor on that threshold under huber_schedule constant and exponential")
      .counts_when("loss_type huber and smooth_l1 with huber_schedule constant or exponential", [&o] { return scales_threshold(o); })
      .level(Level::all);
  f("prior_loss_weight", o.prior_loss_weight, "factor on the losses of the class set").at_least(0);
  f("masked_loss", o.masked_loss,
    "where a sample's loss counts: column, as far as the gray picture in mask_column is white; alpha, as far as the picture is opaque; "
    "none, everywhere")
      .one_of({"none", "column", "alpha"});
  f("mask_column", o.mask_column, "column that names the masks of masked_loss column; rows that leave it empty count whole")
      .counts_when("masked_loss column", [&o] { return has_mask_column(o); });
  f("unmasked_weight", o.unmasked_weight, "of masked_loss: how much what lies outside of a mask still counts, 0 to 1");
  f("normalize_masked_area_loss", o.normalize_masked_area_loss,
    "of masked_loss: a sample's loss is the mean over what counts of it, not over all of it");
  f("noise_offset", o.noise_offset, "adds to the noise a draw of this deviation for each channel").at_least(0).decides_what_is_learned();
  f("discrete_flow_shift", o.timesteps.shift,
    "shift towards noise of timestep_sampling shift, sigma, logit_normal, mode, heavy_tail, cos_map, inverted_parabola, logistic and beta")
      .decides_what_is_learned()
      .counts_when("a timestep_sampling that shifts (shift, sigma, logit_normal, ...)", [&o] { return shifts(o); });
  f("sigmoid_scale", o.timesteps.sigmoid_scale,
    "deviation before the sigmoid of timestep_sampling sigmoid, shift, flux_shift, qwen_shift and krea2_shift")
      .decides_what_is_learned()
      .counts_when("timestep_sampling sigmoid, shift, flux_shift, qwen_shift and krea2_shift", [&o] { return scales_normals(o); })
      .level(Level::all);
  f("logit_mean", o.timesteps.logit_mean, "mean of timestep_sampling logit_normal and logsnr")
      .decides_what_is_learned()
      .counts_when("timestep_sampling logit_normal and logsnr", [&o] { return is_logit_normal(o); })
      .level(Level::all);
  f("logit_std", o.timesteps.logit_std, "deviation of timestep_sampling logit_normal and logsnr")
      .decides_what_is_learned()
      .counts_when("timestep_sampling logit_normal and logsnr", [&o] { return is_logit_normal(o); })
      .level(Level::all);
  f("mode_scale", o.timesteps.mode_scale, "strength of timestep_sampling mode and heavy_tail")
      .decides_what_is_learned()
      .counts_when("timestep_sampling mode and heavy_tail", [&o] { return has_mode(o); })
      .level(Level::all);
  f("noising_weight", o.timesteps.noising_weight, "steepness of timestep_sampling inverted_parabola and logistic; a of beta")
      .decides_what_is_learned()
      .counts_when("timestep_sampling inverted_parabola, logistic and beta", [&o] { return has_noising(o); })
      .level(Level::all);
  f("noising_bias", o.timesteps.noising_bias, "place of timestep_sampling inverted_parabola and logistic, from their middle; b of beta")
      .decides_what_is_learned()
      .counts_when("timestep_sampling inverted_parabola, logistic and beta", [&o] { return has_noising(o); })
      .level(Level::all);
  f("min_t", o.timesteps.min_t, "sigma is drawn from the part of its distribution above this").decides_what_is_learned().level(Level::all);
  f("max_t", o.timesteps.max_t, "sigma is drawn from the part of its distribution below this").decides_what_is_learned().level(Level::all);
  f("min_timestep_boundary", o.timesteps.min_boundary, "start of the trained share of the schedule, from pure noise")
      .decides_what_is_learned()
      .level(Level::all);
  f("max_timestep_boundary", o.timesteps.max_boundary, "end of the trained share of the schedule, 1 for a picture without noise")
      .decides_what_is_learned()
      .level(Level::all);
}

static void output_fields(config::Fields& f, TrainOptions& o) {
  f.group("Output");
  f.path("output_path", o.output_path, "run folder").level(Level::first_run);
  f("output_name", o.output_name, "name of the saved weights: NAME-step-N.safetensors; empty for step-N.safetensors");
  f("save_steps", o.save_steps,
    "also save every N steps; -1, where no other save is asked for, ten times in a run, at least 250 steps apart; 0 saves at the end only")
      .at_least(-1)
      .in("steps")
      .level(Level::first_run);
  f("save_epochs", o.save_epochs, "also save every N epochs").at_least(0).at_most(kMostEpochs).in("epochs");
  f("save_minutes", o.save_minutes, "also save every N minutes").at_least(0).in("minutes");
  f("keep_last", o.keep_last, "of the weights saved by step, keep the last N only; 0 keeps all").at_least(0);
  f("keep_best", o.keep_best, "also keep the weights with the lowest validation loss, as best.safetensors (with validation_steps)");
  f("lora_format", o.lora_format, "names in the adapter's file: auto, diffusers, kohya, lycoris, onetrainer or diffsynth")
      .known({"auto", "diffusers", "kohya", "lycoris", "onetrainer", "diffsynth"})
      .counts_when("an adapter, and trainable_models asks for none (lora_base_model does)", [&o] { return has_adapters(o); });
  f("metadata_title", o.metadata_title,
    "title that saved files have for programs that list models; empty takes output_name, or the model's name")
      .level(Level::all);
  f("metadata_author", o.metadata_author, "author that saved files name").level(Level::all);
  f("metadata_description", o.metadata_description, "what saved files say that they are for").level(Level::all);
  f("metadata_license", o.metadata_license, "license that saved files name, as 'CC-BY-4.0'").level(Level::all);
  f("metadata_tags", o.metadata_tags, "tags of saved files, with commas between").level(Level::all);
  f("save_dtype", o.save_dtype, "fp32, bf16 or fp16 of what is saved; empty takes dtype").known(dtype_choices());
  f("resume", o.resume, "go on from the state in output_path").level(Level::first_run);
  f("auto_resume", o.auto_resume, "go on from the state in output_path where there is one, and begin anew where there is none");
  f("overwrite", o.overwrite, "start anew in an output_path that holds a run, whose log and state are replaced");
  f.path("validation_metadata_path", o.validation_metadata_path, "held-out samples: loss before and after, on fixed noise and timesteps");
  f("validation_strengths", o.validation_strengths,
    "comma list of strengths of the trained adapter at which held-out samples are judged and previews drawn, beside 1: 0,0.5,1.5")
      .counts_when("an adapter, with validation_metadata_path or preview_prompts",
                   [&o] { return has_adapters(o) && (has_previews(o) || !o.validation_metadata_path.empty()); });
  f("validation_steps", o.validation_steps, "also judge held-out samples every N steps").at_least(0).in("steps");
  f.path("preview_prompts", o.preview_prompts,
         "file with a prompt a line (and --w --h --f --d --s --l --n behind it): pictures or clips drawn before the first step and after "
         "the last, into "
         "samples/",
         {"sample_prompts"})
      .level(Level::first_run);
  f("preview_steps", o.preview_steps, "also draw the previews every N steps", {"sample_every_n_steps"})
      .at_least(0)
      .in("steps")
      .level(Level::first_run);
  f("preview_format", o.preview_format,
    "png (of a clip a folder of frames), webp (of a clip animated), and of clips mp4 or webm; default takes png for pictures and webp for "
    "clips")
      .one_of(data::kFormats)
      .counts_when("preview_prompts", [&o] { return has_previews(o); });
  f("preview_with_presets", o.preview_with_presets,
    "draw previews with the LoRAs of preset_lora_path, which are there only while training");
  f("preview_num_inference_steps", o.preview_num_inference_steps, "steps of the sampler for previews whose line does not say")
      .at_least(1)
      .at_most(kMostSamplerSteps)
      .counts_when("preview_prompts", [&o] { return has_previews(o); });
  f("write_report", o.write_report, "write report.html into the run folder at the end, as `burnish report` does");
  f("enable_tensorboard_log", o.enable_tensorboard_log, "event files for TensorBoard in the run folder's tensorboard/");
  f("enable_csv_log", o.enable_csv_log, "log.csv beside log.jsonl");
  f("plan", o.plan, "on: before a weight is read, say what memory a run takes and refuse what does not fit; off").one_of({"on", "off"});
  f("device_memory", o.device_memory, "what a run may take of the device's memory, as 24GiB; empty asks the device");
  f("host_memory", o.host_memory, "what a run may take of the host's memory; empty asks the machine and its limits (cgroup, ulimit -v)");
  f.path("replay", o.replay, "safetensors with recorded noise, sigma or timestep, and sample per step").level(Level::all);
}

/// Whoever reads settings of others runs nothing that they name (Row::acts_outside).
static void tell_fields(config::Fields& f, TrainOptions& o) {
  f.group("Telling others");
  f("on_save", o.tell.on_save,
    "command that the shell runs beside training whenever weights were saved, one after the other; variables say which (docs/train.md)");
  f("on_end", o.tell.on_end, "command that the shell runs when the run has ended, however it did");
  f("webhook", o.tell.webhook,
    "http or https address that is sent a line of JSON when the run starts, saves and ends, with a text that Slack and Discord show");
  f("trust_settings", o.tell.trust_settings, "let a settings file name on_save, on_end and webhook").level(Level::all);
  for (const char* name : {"on_save", "on_end", "webhook", "trust_settings"}) f.row(name).acts_outside();
  for (const char* name : {"on_save", "on_end", "webhook"}) f.row(name).counts_when("a run that trains", [&o] { return trains(o); });
}

/// What the options of a dataset belong to in a run: a dataset_config begins with them, and may add what they need; and a cache was made
/// with those that its visits do not read.
static void dataset_conditions(config::Fields& f, const TrainOptions& o) {
  f.each([&o](config::Field& field) {
    if (field.dataset_key != field.name) return;  // those that are of a run as well have other keys
    for (auto& condition : field.conditions)
      condition.counts = [&o, alone = condition.counts] { return !o.dataset_config.empty() || alone(); };
    if (field.is_of_visits) return;
    const bool is_drawn = field.name == "frame_rate";  // previews play as fast as the clips that are trained
    field.conditions.insert(field.conditions.begin(), {.belongs_to = kCacheMaker,
                                                       .counts = [&o, is_drawn] { return reads_samples(o) || (is_drawn && has_previews(o)); },
                                                       .may_be_repeated = true});
  });
  f.row("mask_folder").counts_when("masked_loss column", [&o] { return has_mask_column(o); });
}

/// What the options of families belong to in a run, by what of a model they are about.
static void model_conditions(config::Fields& f, const TrainOptions& o) {
  using About = models::Option::About;
  for (const auto& name : models::options_about(About::references))
    f.row(name).counts_when("extra_inputs that name reference pictures", [&o] { return has_references(o); });
  for (const auto& name : models::options_about(About::prompts)) f.row(name).matters_when(kCacheMaker, [&o] { return reads_captions(o); });
  for (const auto& name : models::options_about(About::tile_size))
    f.row(name).matters_when(kCacheMaker, [&o] { return runs_autoencoder(o); });
  for (const char* name : {"model", "dtype", "fp8_models", "seed"}) f.row(name).level(Level::first_run);
}

static void data_fields(config::Fields& f, TrainOptions& o) {
  f.group("Data");
  f.path("dataset_base_path", o.dataset_base_path,
         "folder that file names in the metadata start from; alone, a folder of pictures with .txt captions")
      .level(Level::first_run);
  f.path("dataset_metadata_path", o.dataset_metadata_path,
         ".csv, .json or .jsonl with columns image and prompt, or a folder that holds one as metadata.csv, or pictures with .txt captions")
      .level(Level::first_run);
  f.path("class_metadata_path", o.class_metadata_path,
         "prior preservation: metadata, or a folder of pictures with .txt captions, of a class set; its samples are mixed in, as many "
         "visits an "
         "epoch as the others have");
  f.path("class_base_path", o.class_base_path, "folder that file names in class_metadata_path start from; empty takes its own");
  f("class_prompt", o.class_prompt, "caption of samples of the class set that have none; class_tokens are not for them")
      .counts_when("class_metadata_path", [&o] { return !o.class_metadata_path.empty(); });
  f("data_file_keys", o.data_file_keys, "columns that hold files")
      .matters_when(kCacheMaker, [&o] { return reads_samples(o); })
      .repeated()
      .level(Level::all);
  f.path("dataset_config", o.dataset_config,
         "TOML file of several datasets, each with its own sizes, repeats, captions and weight (docs/data.md)");
  fields(f, o.dataset);
  dataset_conditions(f, o);
  f("dataset_repeat", o.dataset_repeat, "visits of each sample in an epoch").at_least(1);
  f("batch_size", o.batch_size, "samples of equal size that a process runs at once")
      .at_least(1)
      .at_most(kMostInABatch)
      .level(Level::first_run);
  f("global_batch_size", o.global_batch_size,
    "samples of equal size in a batch, which processes share out and run batch_size at a time; 0: batch_size times the processes")
      .at_least(0)
      .at_most(kMostInABatch);
  f("on_bad_sample", o.on_bad_sample, "stop, or skip samples that cannot be read").one_of({"stop", "skip"});
  f("dataset_num_workers", o.dataset_num_workers,
    "threads that decode pictures ahead of those who need them; 0 decodes them when they are needed")
      .at_least(0)
      .at_most(kMostThreads);
  f("cache_variants", o.cache_variants,
    "ways in which each picture is cut, all encoded ahead, of which each visit takes one; 0 takes 2 with random_flip alone, 4 with another "
    "random_...")
      .at_least(0)
      .at_most(kMostVariants);
  f("latents", o.latents, "mean of the autoencoder's distribution, or sample: drawn from it at every visit").one_of({"mean", "sample"});
  f.path("cache_path", o.cache_path,
         "folder that keeps what the encoders make of the data, for this run and the next; empty keeps it in memory")
      .level(Level::first_run);
  f.path("import_diffsynth", o.import_diffsynth,
         "folder of .pth files that DiffSynth-Studio's data_process wrote, taken in place of pictures; with cache_path they become a cache")
      .level(Level::all);
  f("precompute", o.precompute,
    "all: what the frozen models make of the data is computed once; none: at every visit, with all models in memory")
      .one_of({"all", "none"});
  f("precompute_timesteps", o.precompute_timesteps,
    "whether frozen layers that see sample and timestep alone run ahead for all steps and are then not loaded: auto where that takes "
    "less memory than their weights, on (in cache_path where there is one), or off; blocks: on, and so do the frozen blocks before the "
    "first that trains")
      .one_of({"auto", "on", "off", "blocks"});
  f("cache_budget", o.cache_budget, "GiB that all kept results may take; what is least worth it is computed at every visit; 0: no limit")
      .at_least(0)
      .in("GiB");
  f("memory_budget", o.memory_budget, "GiB of weights that may be loaded while training; 0: no limit").at_least(0).in("GiB");
  f("num_processes", o.num_processes, "processes among which making a cache is shared out").at_most(kMostProcesses).level(Level::all);
  f("process_index", o.process_index, "which of num_processes this one is, from 0").level(Level::all);
}

static void trained_fields(config::Fields& f, TrainOptions& o) {
  f.group("What is trained");
  objective_fields(f, o.task, o.extra_inputs, o.objective);
  f("trainable_models", o.trainable_models,
    "comma list of components, or parts of them, that train whole (dit, text_encoder); empty trains a LoRA")
      .level(Level::first_run);
  f("experts", o.experts,
    "comma list of the experts that train, of models with several: high_noise, low_noise; empty takes those that are named as components, "
    "or those whose files are there");
  f("lora_base_model", o.lora_base_model,
    "comma list of components that carry adapters; empty takes the denoiser, or those in lora_checkpoint");
  f("lora_target_modules", o.lora_target_modules, "layer names, one regular expression, \"\" for every large layer, or default");
  f("lora_type", o.adapter.type, "lora, dora, loha, lokr, oft or full").known({"lora", "dora", "loha", "lokr", "oft", "full"});
  f("lora_rank", o.adapter.rank, "rank of the adapters; of lokr 10000 and more leave its second factor whole")
      .at_least(1)
      .at_most(adapters::kMostLokrRank)
      .level(Level::first_run);
  f("lora_alpha", o.adapter.alpha, "scale is alpha / rank; 0 takes the rank").at_least(0).level(Level::first_run);
  f("lora_rank_groups", o.lora_rank_groups,
    "comma list of name=rank for components, layers or regular expressions: text_encoder=4,.*to_q=64");
  f("lora_alpha_groups", o.lora_alpha_groups, "comma list of name=alpha for components, layers or regular expressions").level(Level::all);
  f("use_rslora", o.adapter.use_rslora, "scale is alpha / root of rank")
      .counts_when("an adapter, and trainable_models asks for none (lora_base_model does)", [&o] { return has_adapters(o); });
  f("lora_dropout", o.adapter.dropout, "share of the inputs that an adapter does not see in a step")
      .counts_when("an adapter, and trainable_models asks for none (lora_base_model does)", [&o] { return has_adapters(o); });
  f("tlora_min_rank", o.rank_rule.least,
    "T-LoRA's rank mask: how many ranks of a LoRA learn from a sample that is noise alone, and the less noise it has the more, up to all; "
    "0: all ranks learn from every sample")
      .at_least(0)
      .at_most(kMostRank)
      .decides_what_is_learned()
      .counts_when("lora_type lora, and tasks that draw a time for each sample (sft, dpo)",
                   [&o] { return has_adapters(o) && may_be(o, "lora") && draws_times(o); });
  f("tlora_alpha", o.rank_rule.alpha, "exponent of T-LoRA's mask: above 1 fewer ranks learn from samples of some noise, below 1 more")
      .at_least(0)
      .decides_what_is_learned()
      .counts_when("tlora_min_rank", [&o] { return o.rank_rule.is_on(); })
      .level(Level::all);
  f("dora_norm", o.dora_norm, "output: a magnitude per output, as peft and diffusers have it; input: per input, as OneTrainer")
      .known({"output", "input"})
      .counts_when("lora_type dora", [&o] { return is_dora(o); });
  f("lokr_factor", o.adapter.lokr_factor, "largest side of LoKr's first factor; -1 takes the most even split")
      .counts_when("lora_type lokr", [&o] { return is_lokr(o); })
      .level(Level::all);
  f.path("lora_checkpoint", o.lora_checkpoint,
         "LoRA file to start from, for several experts a comma list of theirs; it decides type, targets and alpha, and options that "
         "contradict it are refused; a larger lora_rank pads its factors");
  f("lora_checkpoint_rank", o.lora_checkpoint_rank,
    "rank that the factors of lora_checkpoint are padded to, adding what they added; 0 takes lora_rank where that is asked for, else "
    "theirs")
      .at_least(0)
      .at_most(kMostRank)
      .counts_when("lora_checkpoint", [&o] { return !o.lora_checkpoint.empty(); })
      .level(Level::all);
  fields(f, o.embedding);
  f.path(
      "preset_lora_path", o.preset_lora_path,
      "LoRA file, or file:strength, that is part of the frozen weights while training and of no file that is written; may be given several "
      "times",
      {"base_weights"});
  f("preset_lora_model", o.preset_lora_model,
    "comma list of components that preset LoRAs are merged into; empty takes all that they adapt");
}

void fields(config::Fields& f, TrainOptions& o) {
  fields(f, o.model);
  model_conditions(f, o);
  f("init", o.init, "pretrained, or random to train the denoiser from scratch").one_of({"pretrained", "random"});
  data_fields(f, o);
  trained_fields(f, o);
  f.group("Training");
  f("learning_rate", o.learning_rate, "peak learning rate").level(Level::first_run);
  f("text_encoder_lr", o.text_encoder_lr,
    "learning rate of what trains besides the denoiser, or a comma list of component=rate; empty takes learning_rate")
      .counts_when("components besides the denoiser that train; name them in lora_base_model or trainable_models",
                   [&o] { return has_other_rates(o); });
  f("max_steps", o.max_steps, "optimizer steps; 0 goes by num_epochs").at_most(kMostSteps).in("steps").level(Level::first_run);
  f("num_epochs", o.num_epochs, "passes over the data when max_steps is 0").at_most(kMostEpochs).in("epochs").level(Level::first_run);
  f("gradient_accumulation_steps", o.gradient_accumulation_steps, "batches per optimizer step")
      .at_least(1)
      .at_most(kMostBatchesAStep)
      .level(Level::first_run);
  optimizer_fields(f, o);
  f("trained_weights", o.trained_weights,
    "how weights that train are kept and rounded: stochastic, remainder (bf16 and 16 more bits: exact), nearest, or fp8 (in codes)")
      .known({"stochastic", "remainder", "nearest", "fp8"});
  f("ema_decay", o.ema_decay,
    "files and validation take a moving average of what trains, which keeps this share of itself at each step, 0.999 say; 0: none");
  f("max_grad_norm", o.max_grad_norm, "clips the gradient norm; 0 does not").at_least(0);
  loss_fields(f, o);
  memory_fields(f, o);
  output_fields(f, o);
  tell_fields(f, o);
  diffsynth_options(f);
}

}  // namespace burnish::train
