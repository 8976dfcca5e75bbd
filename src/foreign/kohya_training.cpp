#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/program.h"
#include "foreign/row_files.h"

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
  auto given = lower(all.text("optimizer_type"));
  auto it = kOptimizers.find(given.empty() ? "adamw" : given);
  return it == kOptimizers.end() ? "" : it->second;
}

/// A number of steps: whole, or below 1, or "10%", a share of all.
struct Steps {
  double number = 0;
  bool is_share = false;
};

Steps steps_of(const Settings& all, const std::string& name) {
  auto text = all.text(name);
  if (text.ends_with('%')) return {number_of(Value(text.substr(0, text.size() - 1))).value_or(0) / 100, true};
  auto number = all.number(name).value_or(0);
  return number > 0 && number < 1 ? Steps{number, true} : Steps{std::floor(number)};
}

/// Counts it in steps; nothing for a share of steps that epochs say.
std::optional<double> steps_or_share(const Settings& all, const std::string& name) {
  auto steps = steps_of(all, name);
  if (!steps.is_share) return steps.number;
  return all.has("max_train_epochs") ? std::nullopt
                                     : std::optional(std::floor(steps.number * all.number("max_train_steps").value_or(1600)));
}

const char* const kUnknownShare = "a share of a run whose steps are not known here; write steps";

bool is_schedule_free(const Settings& all) { return optimizer_of(all).ends_with("schedulefree"); }

/// Adafactor's own steps take the place of every schedule, and of the rate.
bool steps_by_itself(const Settings& all) {
  bool is_told = all.has("optimizer_args.relative_step") && !all.on("optimizer_args.relative_step");
  return optimizer_of(all) == "adafactor" && (!is_told || all.on("optimizer_args.warmup_init"));
}

std::string schedule_of(const Settings& all) { return lower(all.text("lr_scheduler", "constant")); }

/// transformers' schedules, as functions of the step.
Outcome schedule(const Value& value, const Settings& all) {
  static const std::map<std::string, std::string> kSchedules{{"constant", "constant"},
                                                             {"constant_with_warmup", "constant"},
                                                             {"linear", "linear"},
                                                             {"cosine", "cosine"},
                                                             {"cosine_with_restarts", "cosine_with_restarts"},
                                                             {"polynomial", "polynomial"},
                                                             {"inverse_sqrt", "inverse_sqrt"},
                                                             {"warmup_stable_decay", "warmup_stable_decay"},
                                                             {"rex", "rex"},
                                                             {"cosine_with_min_lr", "cosine"}};
  auto word = lower(text_of(value));
  if (all.on("lr_scheduler_type")) return left_out("lr_scheduler_type takes its place");
  if (is_schedule_free(all)) return carried("constant");
  if (steps_by_itself(all))
    return left_out(word == "constant" || word.starts_with("adafactor") ? "" : "Adafactor's relative_step takes its place");
  bool whole_waves = word == "cosine_with_min_lr" || word == "warmup_stable_decay";
  if (whole_waves && all.number("lr_scheduler_num_cycles").value_or(1) != 1)
    return left_out("falls and rises in waves, which no schedule here does: the rate stays constant");
  if (word == "warmup_stable_decay" && steps_or_share(all, "lr_decay_steps").value_or(1) == 0) return carried("constant");
  auto it = kSchedules.find(word);
  return it == kSchedules.end() ? left_out("no such schedule: the rate stays constant") : carried(it->second);
}

/// A number of a curve, where the schedule is one that reads it.
Convert of_schedules(std::vector<std::string> schedules, Convert convert) {
  return [schedules = std::move(schedules), convert = std::move(convert)](const Value& value, const Settings& all) {
    bool is_read = contains(schedules, schedule_of(all)) && schedule(Value(schedule_of(all)), all).value;
    return is_read ? convert(value, all) : left_out("");
  };
}

Outcome warmup(const Value&, const Settings& all) {
  auto steps = steps_or_share(all, "lr_warmup_steps");
  if (is_schedule_free(all) || !steps) return left_out("");
  return carried(*steps, note_on_warmup(*steps));
}

/// A share of steps that epochs say is one of the run's steps, whatever they come to.
Outcome warmup_share(const Value&, const Settings& all) {
  if (is_schedule_free(all) || steps_or_share(all, "lr_warmup_steps")) return left_out("");
  return carried(steps_of(all, "lr_warmup_steps").number, note_on_warmup(1));
}

Outcome decay_steps(const Value&, const Settings& all) {
  auto steps = steps_or_share(all, "lr_decay_steps");
  if (!steps) return left_out(kUnknownShare);
  return *steps > 0 ? carried(*steps) : left_out("");
}

/// Polynomials end at 1e-7, whatever the rate is.
Outcome end_of_polynomial(const Value&, const Settings& all) {
  auto rate = all.number("unet_lr").value_or(all.number("learning_rate").value_or(2e-6));
  return rate > 1e-7 ? carried(1e-7 / rate) : left_out("");
}

void optimizer_rows(Table& table) {
  table << rewritten(
      "optimizer_type", "optimizer",
      [](const Value& value, const Settings& all) {
        auto name = optimizer_of(all), given = lower(text_of(value));
        if (name.empty()) return left_out(kNoOptimizer);
        bool paged = given.starts_with("paged"), eight = given == "lion8bit" || given == "pagedlion8bit";
        return carried(name, paged ? "states are not paged" : eight ? "states are not held in 8 bits" : "");
      },
      "AdamW");
  table << weight_decay_row("optimizer_args.weight_decay", optimizer_of);
  table << rewritten(
      "optimizer_type", "optimizer_args",
      [](const Value&, const Settings& all) {
        // Both are on there unless given, and off here.
        std::map<std::string, std::string> others{{"relative_step", "true"}, {"scale_parameter", "true"}};
        if (all.on("optimizer_args.warmup_init")) others["relative_step"] = "true";
        return optimizer_numbers(optimizer_of(all), "optimizer_args.", all, others);
      },
      "AdamW");
  table << optimizer_number_rows("optimizer_args.", optimizer_of);
  table << rewritten("lr_scheduler", "lr_scheduler", schedule, "constant");
  table << rewritten("lr_scheduler_num_cycles", "lr_scheduler_num_cycles", of_schedules({"cosine_with_restarts"}, same_value), 1)
        << rewritten("lr_scheduler_power", "lr_scheduler_power", of_schedules({"polynomial"}, same_value), 1)
        << rewritten("lr_scheduler_power", "lr_scheduler_min_lr_ratio", of_schedules({"polynomial"}, end_of_polynomial), 1)
        << rewritten("lr_scheduler_min_lr_ratio", "lr_scheduler_min_lr_ratio",
                     of_schedules({"cosine_with_min_lr", "warmup_stable_decay", "rex"}, same_value));
  table << rewritten("lr_warmup_steps", "lr_warmup_steps", warmup, 0) << rewritten("lr_warmup_steps", "lr_warmup_ratio", warmup_share)
        << rewritten("lr_decay_steps", "lr_decay_steps", of_schedules({"warmup_stable_decay"}, decay_steps), 0);
  table << rewritten("lr_scheduler_timescale", "", [](const Value& value, const Settings& all) {
    auto warmup = steps_or_share(all, "lr_warmup_steps").value_or(0);
    bool told = schedule_of(all) == "inverse_sqrt" && number_of(value) != (warmup > 0 ? warmup : 10000);
    return left_out(told ? "the warm-up's steps, or 10000, are the scale of inverse_sqrt" : "");
  });
}

void saving_rows(Table& table) {
  table << rewritten("save_precision", "save_dtype", [](const Value& value, const Settings&) {
    auto word = lower(text_of(value));
    return carried(word == "float" || word == "float32" ? Value("fp32") : Value(word));
  });
  table << same("save_last_n_steps", "keep_last", "counts saves here, not steps") << same("save_last_n_epochs", "keep_last");
  table << rewritten("log_with", "enable_tensorboard_log", [](const Value& value, const Settings&) {
    auto word = lower(text_of(value));
    bool tensorboard = word == "tensorboard" || word == "all";
    return tensorboard ? carried(true) : left_out("nothing is sent elsewhere; the log is log.jsonl in the run folder");
  });
}

}  // namespace
}  // namespace of_kohya_training

namespace of_kohya_training {
namespace {

/// The denoiser's rate is unet_lr where that is given.
Outcome rate(const Value& value, const Settings& all) { return all.has("unet_lr") ? left_out("") : carried(value); }

void course_rows(Table& table) {
  table << rewritten("learning_rate", "learning_rate", of_optimizer(optimizer_of, rate), 2e-6);
  table << rewritten("unet_lr", "learning_rate", of_optimizer(optimizer_of, same_value));
  table << rewritten(
      "max_train_steps", "max_steps",
      [](const Value& value, const Settings& all) {
        if (!all.has("max_train_epochs")) return carried(value);
        return left_out(all.has("max_train_steps") ? "max_train_epochs takes its place" : "");
      },
      1600);
  table << rewritten("gradient_accumulation_steps", "gradient_accumulation_steps", accumulated, 1);
}

}  // namespace
}  // namespace of_kohya_training

OptimizerOf kohya_optimizer() { return of_kohya_training::optimizer_of; }

Table kohya_training(bool (*flows)(const Settings&)) {
  using namespace of_kohya_training;
  Table table;
  table << rows_in("kohya_training");
  course_rows(table);
  table << rewritten(
      "mixed_precision", "dtype",
      [flows](const Value& value, const Settings& all) {
        auto word = lower(text_of(value));
        return dtype_of_run(word == "no" ? "fp32" : word == "fp16" || word == "bf16" ? word : "", flows(all) || !all.has("network_module"));
      },
      "no");
  optimizer_rows(table);
  saving_rows(table);
  return table;
}

}  // namespace burnish::foreign
