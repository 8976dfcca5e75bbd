#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/program.h"

// What sd-scripts and musubi-tuner have in common: training, optimizer, schedule, saving.
namespace burnish::foreign {

namespace of_kohya_training {
namespace {

const std::map<std::string, std::string> kOptimizers{{"adamw", "adamw"},
                                                     {"pagedadamw", "adamw"},
                                                     {"adamw8bit", "adamw8bit"},
                                                     {"pagedadamw8bit", "adamw8bit"},
                                                     {"bitsandbytes.optim.adamw8bit", "adamw8bit"},
                                                     {"adafactor", "adafactor"},
                                                     {"lion", "lion"},
                                                     {"lion8bit", "lion"},
                                                     {"pagedlion8bit", "lion"},
                                                     {"prodigy", "prodigy"},
                                                     {"prodigyopt.prodigy", "prodigy"},
                                                     {"prodigyplus.prodigyplusschedulefree", "prodigy_schedulefree"},
                                                     {"adamwschedulefree", "adamw_schedulefree"},
                                                     {"came", "came"},
                                                     {"came_pytorch.came", "came"}};

std::string optimizer_of(const Settings& all) {
  if (all.on("use_8bit_adam")) return "adamw8bit";
  if (all.on("use_lion_optimizer")) return "lion";
  auto it = kOptimizers.find(lower(all.text("optimizer_type", "adamw")));
  return it == kOptimizers.end() ? "" : it->second;
}

/// Whole numbers are steps, what lies below 1 is a share of all.
Outcome steps_or_share(const Value& value, const Settings& all) {
  auto number = number_of(value);
  if (!number) return left_out("is no number");
  if (*number >= 1 || *number == 0) return carried(value);
  auto steps = all.number("max_train_steps");
  if (!steps || all.has("max_train_epochs")) return left_out("a share of a run whose steps are not known here; write steps");
  return carried(std::round(*number * *steps));
}

/// All arguments of the optimizer in one text, for one option holds them.
Outcome optimizer_arguments(const Value&, const Settings& all) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : all.all()) {
    // All weight decay here is decoupled.
    if (!name.starts_with("optimizer_args.") || name.ends_with(".weight_decay") || name.ends_with(".decouple")) continue;
    auto text = text_of(value);
    text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == '(' || c == ')' || c == '[' || c == ']' || c == ' '; }),
               text.end());
    entries.push_back(name.substr(std::string("optimizer_args.").size()) + "=" + lower(text));
  }
  if (optimizer_of(all) == "adafactor") {  // both are on there unless given, and off here
    for (const char* name : {"relative_step", "scale_parameter"}) {
      if (!all.has(std::string("optimizer_args.") + name)) entries.push_back(std::string(name) + "=true");
    }
  }
  return entries.empty() || optimizer_of(all).empty() ? left_out("") : carried(join(entries, ","));
}

void optimizer_rows(Table& table) {
  table << rewritten(
      "optimizer_type", "optimizer",
      [](const Value& value, const Settings& all) {
        auto name = optimizer_of(all), given = lower(text_of(value));
        if (name.empty())
          return left_out("no such optimizer; docs/optimizers.md lists those there are, prodigy finds its own learning rate too");
        bool paged = given.starts_with("paged");
        return carried(name, paged ? "states are not paged" : given == "lion8bit" ? "states are not held in 8 bits" : "");
      },
      "AdamW");
  table << looked_at({"use_8bit_adam", "use_lion_optimizer"});
  table << weight_decay_row("optimizer_args.weight_decay", optimizer_of);
  table << rewritten("optimizer_type", "optimizer_args", optimizer_arguments, "AdamW");
  table << looked_at({"optimizer_args.*"});
  table << words("lr_scheduler", "lr_scheduler",
                 {{"constant", "constant"},
                  {"constant_with_warmup", "constant"},
                  {"linear", "linear"},
                  {"cosine", "cosine"},
                  {"cosine_with_min_lr", "cosine"},
                  {"cosine_with_restarts", "cosine_with_restarts"},
                  {"polynomial", "polynomial"},
                  {"inverse_sqrt", "inverse_sqrt"},
                  {"warmup_stable_decay", "warmup_stable_decay"},
                  {"rex", "rex"}},
                 "no such schedule; the learning rate stays constant unless lr_scheduler says otherwise");
  auto of_schedule = [](std::string schedule) {
    return [schedule](const Value& value, const Settings& all) {
      return lower(all.text("lr_scheduler")) == schedule ? carried(value) : left_out("");
    };
  };
  table << rewritten("lr_scheduler_num_cycles", "lr_scheduler_num_cycles", of_schedule("cosine_with_restarts"))
        << rewritten("lr_scheduler_power", "lr_scheduler_power", of_schedule("polynomial"))
        << same("lr_scheduler_min_lr_ratio", "lr_scheduler_min_lr_ratio");
  table << rewritten("lr_warmup_steps", "lr_warmup_steps", steps_or_share) << rewritten("lr_decay_steps", "lr_decay_steps", steps_or_share);
  table << no_place({"lr_scheduler_timescale", "lr_scheduler_args", "lr_scheduler_type"}, "no such schedule");
}

void saving_rows(Table& table) {
  table << same("output_dir", "output_path");
  table << rewritten("save_precision", "save_dtype", [](const Value& value, const Settings&) {
    auto word = lower(text_of(value));
    return carried(word == "float" || word == "float32" ? Value("fp32") : Value(word));
  });
  table << same("save_every_n_steps", "save_steps") << same("save_every_n_epochs", "save_epochs");
  table << same("save_last_n_steps", "keep_last", "counts saves here, not steps") << same("save_last_n_epochs", "keep_last");
  table << no_place({"save_n_epoch_ratio"}, "say save_steps, save_epochs or save_minutes");
  table << no_place({"resume", "initial_step", "initial_epoch", "skip_until_initial_step"},
                    "states of other programs are not read; lora_checkpoint starts from a LoRA, --resume goes on with a run of burnish");
  table << needless({"save_state",
                     "save_state_on_train_end",
                     "save_state_to_huggingface",
                     "save_last_n_steps_state",
                     "save_last_n_epochs_state",
                     "wandb_api_key",
                     "wandb_run_name",
                     "log_tracker_config",
                     "log_config",
                     "huggingface_repo_id",
                     "huggingface_repo_type",
                     "huggingface_path_in_repo",
                     "huggingface_token",
                     "huggingface_repo_visibility",
                     "async_upload",
                     "resume_from_huggingface",
                     "metadata_title",
                     "metadata_author",
                     "metadata_description",
                     "metadata_license",
                     "metadata_tags",
                     "console_log_level",
                     "console_log_file",
                     "console_log_simple"});
  table << rewritten("log_with", "enable_tensorboard_log", [](const Value& value, const Settings&) {
    auto word = lower(text_of(value));
    bool tensorboard = word == "tensorboard" || word == "all";
    return tensorboard ? carried(true) : left_out("nothing is sent elsewhere; the log is log.jsonl in the run folder");
  });
}

}  // namespace
}  // namespace of_kohya_training

Table kohya_training(bool (*flows)(const Settings&)) {
  using namespace of_kohya_training;
  Table table;
  table << rewritten(
      "learning_rate", "learning_rate",
      [](const Value& value, const Settings& all) { return all.has("unet_lr") ? left_out("unet_lr takes its place") : carried(value); },
      2e-6);
  table << same("unet_lr", "learning_rate");
  table << rewritten(
      "max_train_steps", "max_steps",
      [](const Value& value, const Settings& all) {
        return all.has("max_train_epochs") ? left_out("max_train_epochs takes its place") : carried(value);
      },
      1600);
  table << same("max_train_epochs", "num_epochs") << same("seed", "seed");
  table << same("gradient_accumulation_steps", "gradient_accumulation_steps");
  table << same("gradient_checkpointing", "use_gradient_checkpointing");
  table << rewritten(
      "max_grad_norm", "max_grad_norm", [](const Value& value, const Settings&) { return carried(value); }, 1.0);
  table << rewritten(
      "mixed_precision", "dtype",
      [flows](const Value& value, const Settings& all) {
        auto word = lower(text_of(value));
        return dtype_of_run(word == "no" ? "fp32" : word == "fp16" || word == "bf16" ? word : "", flows(all) || !all.has("network_module"));
      },
      "no");
  optimizer_rows(table);
  saving_rows(table);
  table << same("max_data_loader_n_workers", "dataset_num_workers");
  table << no_place({"launch.num_processes", "launch.multi_gpu", "launch.num_machines", "deepspeed", "zero_stage", "fsdp"},
                    "burnish launch starts several processes, and zero_stage divides what they keep");
  table << needless({"launch.*", "persistent_data_loader_workers", "config_file", "torch_compile", "dynamo_backend", "compile",
                     "split_attn", "flash_attn", "sage_attn", "flash3", "ddp_gradient_as_bucket_view", "ddp_static_graph"});
  return table;
}

}  // namespace burnish::foreign
