#include "adapters/layout.h"
#include "base/dtype.h"
#include "base/limits.h"
#include "config/everyday_words.h"
#include "data/drawn_file.h"
#include "train/options/asked.h"
#include "train/options/meaning.h"
#include "train/options/rows.h"

namespace burnish::train {

using config::Level;

namespace {

void file_fields(config::Fields& f, TrainOptions& o) {
  f.group("Output");
  f.path("output_path", o.output_path, "run folder").level(Level::first_run).called(config::kOutput);
  f("output_name", o.output.name, "name of the saved weights: NAME-step-N.safetensors; empty for step-N.safetensors")
      .label("Name of saved files");
  f("save_steps", o.output.save.steps,
    "also save every N steps; -1, where no other save is asked for, ten times in a run, at least 250 steps apart; 0 saves at the end only")
      .label("Save every … steps")
      .at_least(-1)
      .in("steps")
      .level(Level::first_run)
      .called(config::kSave);
  f("save_epochs", o.output.save.epochs, "also save every N epochs")
      .label("Save every … epochs")
      .at_least(0)
      .at_most(kMostEpochs)
      .in("epochs");
  f("save_minutes", o.output.save.minutes, "also save every N minutes").label("Save every … minutes").at_least(0).in("minutes");
  f("keep_last", o.output.save.keep_last, "of the weights saved by step, keep the last N only; 0 keeps all")
      .label("Saves to keep")
      .at_least(0);
  f("keep_best", o.output.save.keep_best,
    "also keep the weights with the lowest validation loss, as best.safetensors (with validation_steps)")
      .label("Keep the best one");
  f("lora_format", o.trained.lora_format, "names in the adapter's file: {words}")
      .label("LoRA's file format")
      .known(adapters::layouts())
      .counts_when("an adapter, and trainable_models asks for none (lora_base_model does)", [&o] { return has_adapters(o); });
  f("save_dtype", o.save_dtype, "fp32, bf16 or fp16 of what is saved; empty takes dtype")
      .label("Precision of saved files")
      .known(dtype_choices());
}

void metadata_fields(config::Fields& f, OutputSettings& o) {
  f("metadata_title", o.files.described.at("title"),
    "title that saved files have for programs that list models; empty takes output_name, or the model's name")
      .level(Level::all);
  f("metadata_author", o.files.described.at("author"), "author that saved files name").level(Level::all);
  f("metadata_description", o.files.described.at("description"), "what saved files say that they are for").level(Level::all);
  f("metadata_license", o.files.described.at("license"), "license that saved files name, as 'CC-BY-4.0'").level(Level::all);
  f("metadata_tags", o.files.described.at("tags"), "tags of saved files, with commas between").level(Level::all);
}

void folder_fields(config::Fields& f, TrainOptions& o) {
  f("resume", o.output.resume, "go on from the state in output_path").level(Level::first_run);
  f("auto_resume", o.auto_resume, "go on from the state in output_path where there is one, and begin anew where there is none");
  f("overwrite", o.output.overwrite, "start anew in an output_path that holds a run, whose log and state are replaced");
  f("write_report", o.output.logs.report, "write report.html into the run folder at the end, as `burnish report` does");
  f("enable_tensorboard_log", o.output.logs.tensorboard, "event files for TensorBoard in the run folder's tensorboard/");
  f("enable_csv_log", o.output.logs.csv, "log.csv beside log.jsonl");
}

void preview_fields(config::Fields& f, TrainOptions& o) {
  f.group("Validation and previews");
  f.path("validation_metadata_path", o.data.validation_metadata_path,
         "held-out samples: loss before and after, on fixed noise and timesteps")
      .label("Held-out pictures");
  f("validation_strengths", o.validation_strengths,
    "strengths of the trained adapter at which held-out samples are judged and previews drawn, beside 1: 0,0.5,1.5; or by layers, with "
    "semicolons between: 0.5; 1:attn=0")
      .counts_when("an adapter, with validation_metadata_path or preview_prompts",
                   [&o] { return has_adapters(o) && (has_previews(o) || !o.data.validation_metadata_path.empty()); });
  f("validation_steps", o.output.validation_steps, "also judge held-out samples every N steps")
      .label("Validate every … steps")
      .at_least(0)
      .in("steps");
  f.path("preview_prompts", o.output.previews.prompts,
         "file with a prompt a line (and --w --h --f --d --s --l --n behind it): pictures or clips drawn before the first step and after "
         "the last, into samples/",
         {"sample_prompts"})
      .label("Sample prompts")
      .level(Level::first_run)
      .called(config::kPreviews);
  f("preview_steps", o.output.previews.every, "also draw the previews every N steps", {"sample_every_n_steps"})
      .label("Draw samples every … steps")
      .at_least(0)
      .in("steps")
      .level(Level::first_run);
  f("preview_format", o.output.previews.format,
    "png (of a clip a folder of frames), webp (of a clip animated), and of clips mp4 or webm; default takes png for pictures, webp for "
    "clips and mp4 for clips that sound")
      .label("Samples' file format")
      .one_of(data::kFormats)
      .counts_when("preview_prompts", [&o] { return has_previews(o); });
  f("preview_with_presets", o.output.previews.with_presets,
    "draw previews with the LoRAs of preset_lora_path, which are there only while training")
      .label("Samples with preset LoRAs");
  f("preview_num_inference_steps", o.output.previews.num_steps, "steps of the sampler for previews whose line does not say")
      .label("Sampler steps of samples")
      .at_least(1)
      .at_most(kMostSamplerSteps)
      .counts_when("preview_prompts", [&o] { return has_previews(o); });
}

void plan_fields(config::Fields& f, PlanChoice& o) {
  f.group("Memory limits");
  f("plan", o.check, "on: before a weight is read, say what memory a run takes and refuse what does not fit; off").one_of({"on", "off"});
  f("device_memory", o.device_memory, "what a run may take of the device's memory, as 24GiB; empty asks the device").label("GPU memory");
  f("host_memory", o.host_memory, "what a run may take of the host's memory; empty asks the machine and its limits (cgroup, ulimit -v)")
      .label("System memory");
  f("unified_memory", o.unified_memory,
    "GPU and host have one memory, of which device_memory is the size, as a DGX Spark's do; a GPU that is there says so itself");
}

/// Whoever reads settings of others runs nothing that they name (Row::acts_outside).
void tell_fields(config::Fields& f, TrainOptions& o) {
  f.group("Notifications");
  f("on_save", o.tell.on_save,
    "command that the shell runs beside training whenever weights were saved, one after the other; variables say which (docs/train.md)");
  f("on_end", o.tell.on_end, "command that the shell runs when the run has ended, however it did");
  f("webhook", o.tell.webhook,
    "http or https address that is sent a line of JSON when the run starts, saves and ends, with a text that Slack and Discord show");
  f("trust_settings", o.tell.trust_settings, "let a settings file name on_save, on_end, webhook and reward_program").level(Level::all);
  for (const char* name : {"on_save", "on_end", "webhook", "trust_settings"}) f.row(name).acts_outside();
  for (const char* name : {"on_save", "on_end", "webhook"}) f.row(name).counts_when("a run that trains", [&o] { return trains(o); });
}

}  // namespace

void output_fields(config::Fields& f, TrainOptions& o) {
  file_fields(f, o);
  metadata_fields(f, o.output);
  folder_fields(f, o);
  preview_fields(f, o);
  plan_fields(f, o.plan);
  tell_fields(f, o);
}

}  // namespace burnish::train
