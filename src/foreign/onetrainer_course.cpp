#include "foreign/onetrainer_course.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/onetrainer_model.h"

namespace burnish::foreign::of_onetrainer {

namespace {

/// The rows of numbers of its optimizers that one of them alone reads.
void number_rows(Table& table) {
  const std::string prefix = "optimizer.";
  auto of = [&](const char* name, Value absent, const char* optimizer, const std::string& why) {
    table << rewritten(prefix + name, "", [absent, optimizer = std::string(optimizer), why](const Value& value, const Settings& all) {
               return left_out(optimizer_of(all) == optimizer && !means_the_same(value, absent) ? why : "");
             }).otherwise(absent);
  };
  for (const char* name :
       {"weight_decay_by_lr", "split_groups", "factored", "factored_fp32", "use_stableadamw", "d_limiter", "use_schedulefree"})
    of(name, true, "prodigy_schedulefree", "is always on here");
  of("split_groups_mean", true, "prodigy_schedulefree", "groups find their rates by themselves");
  of("rms_rescaling", true, "muon", "updates have AdamW's size here");
  of("muon_adam_lr", nullptr, "muon", "what is no matrix trains at learning_rate; lr_groups says otherwise");
}

/// Carries a warm-up in updates: OneTrainer counts batches, and numbers up to 1 are a share of the run.
Outcome warmup(const Value& value, const Settings& all) {
  auto number = number_of(value).value_or(0);
  if (number <= 0 || is_schedule_free(all)) return left_out("");
  if (number <= 1) return left_out("");
  auto steps = std::floor(number / batches_per_update(all));
  return carried(steps, note_on_warmup(steps));
}

/// Carries a warm-up that is a share of a run's updates, whatever they come to.
Outcome warmup_share(const Value& value, const Settings& all) {
  auto number = is_schedule_free(all) ? 0 : number_of(value).value_or(0);
  return number > 0 && number <= 1 ? carried(number, note_on_warmup(1)) : left_out("");
}

/// Whole waves of a cosine end at the full rate, hard restarts are halves: one half is a plain cosine.
Outcome schedule(const Value& value, const Settings& all) {
  static const std::map<std::string, std::string> kSchedules{{"constant", "constant"},
                                                             {"linear", "linear"},
                                                             {"cosine", "cosine"},
                                                             {"cosine_with_hard_restarts", "cosine_with_restarts"},
                                                             {"rex", "rex"}};
  auto word = lower(text_of(value));
  auto cycles = all.number("learning_rate_cycles").value_or(1);
  if (is_schedule_free(all)) return carried("constant");
  if (word == "cosine_with_restarts") {
    if (cycles == 0.5) return carried("cosine");
    return left_out(
        fmt::format("falls and rises in {:g} whole waves and ends at the full rate, which no schedule here does: the rate stays "
                    "constant; cosine_with_restarts falls in each cycle and starts again at the top",
                    cycles));
  }
  if (word == "cosine_with_hard_restarts" && cycles != std::floor(cycles))
    return left_out("has a part of a cycle, and cycles are whole here: the rate stays constant");
  auto it = kSchedules.find(word);
  return it == kSchedules.end() ? left_out("no such schedule: the rate stays constant") : carried(it->second);
}

bool has_curve(const Settings& all) {
  auto word = lower(all.text("learning_rate_scheduler", "CONSTANT"));
  auto ours = schedule(Value(word), all);
  return ours.value && *ours.value != "constant";
}

/// The learning rate as its scaler has it: times the root of a batch's samples, or batches.
Outcome rate(const Value& value, const Settings& all) {
  auto scaler = all.text("learning_rate_scaler", "NONE");
  double batch = all.number("batch_size").value_or(1), factor = 1;
  if (scaler == "BATCH" || scaler == "GLOBAL_BATCH") factor = batch;
  if (scaler == "GRADIENT_ACCUMULATION") factor = batches_per_update(all);
  if (scaler == "BOTH" || scaler == "GLOBAL_BOTH") factor = batch * batches_per_update(all);
  auto number = number_of(value);
  if (!number || factor == 1) return carried(value);
  return carried(*number * std::sqrt(factor), "times the root of " + fmt::format("{:g}", factor) + ", by learning_rate_scaler");
}

/// The rates of the text encoders that train; each without one of its own takes that of the run, not the denoiser's.
Outcome encoder_rates(const Value&, const Settings& all) {
  std::vector<std::string> rates;
  bool differ = all.has(part_of(all) + ".learning_rate");
  for (const std::string part : kTextEncoders) {
    if (!trains(all, part)) continue;
    const auto* own = all.find(part + ".learning_rate");
    differ = differ || own;
    const auto* of_run = all.find("learning_rate");
    rates.push_back(part + "=" + text_of(*rate(own ? *own : of_run ? *of_run : Value(3e-6), all).value));
  }
  return differ && !rates.empty() ? carried(join(rates, ",")) : left_out("");
}

/// A part that stops training before the run ends; `theirs` ends in .stop_training_after.
Outcome stops(const std::string& part, double count, const Settings& all) {
  auto otherwise = part.starts_with("text_encoder") ? "EPOCH" : "NEVER";
  auto unit = all.text(part + ".stop_training_after_unit", otherwise);
  if (!trains(all, part) || unit == "NEVER") return left_out("");
  if (unit == "EPOCH" && count >= all.number("epochs").value_or(100)) return left_out("");
  return left_out(
      fmt::format("a part trains to the end here; train {:g} {}s with it, and go on without it from that file", count, lower(unit)));
}

void rate_rows(Table& table) {
  table << rewritten("learning_rate", "learning_rate",
                     of_optimizer(optimizer_of,
                                  [](const Value& value, const Settings& all) {
                                    return all.has(part_of(all) + ".learning_rate") ? left_out("") : rate(value, all);
                                  }),
                     3e-6);
  for (const std::string part : {"unet", "transformer"}) {
    table << rewritten(part + ".learning_rate", "learning_rate", [part](const Value& value, const Settings& all) {
      return part == part_of(all) ? of_optimizer(optimizer_of, rate)(value, all) : left_out("");
    });
  }
  auto rates = [](const Value& value, const Settings& all) { return optimizer_of(all).empty() ? left_out("") : encoder_rates(value, all); };
  table << rewritten("learning_rate", "text_encoder_lr", rates, 3e-6);
  for (const std::string part : kTextEncoders) {
    table << rewritten(part + ".learning_rate", "text_encoder_lr", [part, rates](const Value& value, const Settings& all) {
      return trains(all, part) ? of_optimizer(optimizer_of, rates)(value, all) : left_out("");
    });
  }
}

/// The rows of memory: settings of the denoiser alone, and of the whole in older files.
void memory_rows(Table& table) {
  auto on = [](const Value& value, const Settings&) { return carried(asks_for_something(value)); };
  table << rewritten("gradient_checkpointing", "use_gradient_checkpointing", on);
  table << rewritten("gradient_checkpointing", "use_gradient_checkpointing_offload",
                     [](const Value& value, const Settings&) { return text_of(value) == "CPU_OFFLOADED" ? carried(true) : left_out(""); });
  const std::string why = "say in blocks_to_swap how many blocks wait in main memory";
  for (const std::string part : {"unet", "transformer"}) {
    auto of_this = [part](Convert convert) {
      return [part, convert](const Value& value, const Settings& all) {
        return part == part_of(all) && !all.has("gradient_checkpointing") ? convert(value, all) : left_out("");
      };
    };
    table << rewritten(part + ".gradient_checkpointing", "use_gradient_checkpointing", of_this(on), true);
    table << rewritten(
        part + ".activation_offloading", "use_gradient_checkpointing_offload",
        of_this([](const Value& value, const Settings&) { return asks_for_something(value) ? carried(true) : left_out(""); }), false);
    table << rewritten(part + ".offload_fraction", "",
                       of_this([why](const Value& value, const Settings&) { return left_out(asks_for_something(value) ? why : ""); }), 0.0);
  }
}

}  // namespace

void optimizer_rows(Table& table) {
  table << rewritten(
      "optimizer.optimizer", "optimizer",
      [](const Value& value, const Settings& all) {
        auto name = optimizer_of(all), given = lower(text_of(value));
        if (name.empty()) return left_out(kNoOptimizer);
        return carried(name, given == "lion_8bit" || given == "came_8bit" ? "states are not held in 8 bits" : "");
      },
      "ADAMW");
  table << rewritten(
      "optimizer.optimizer", "optimizer_args",
      [](const Value&, const Settings& all) {
        auto name = optimizer_of(all);
        std::map<std::string, std::string> others;
        if (name == "came") others = {{"beta3", "0.9999"}};
        if (name == "prodigy") others = {{"slice_p", "11"}};
        return optimizer_numbers(name, "optimizer.", all, others);
      },
      "ADAMW");
  table << rewritten(
      "optimizer.weight_decay", "weight_decay",
      [](const Value& value, const Settings& all) {
        auto theirs = lower(all.text("optimizer.optimizer", "ADAMW"));
        if (all.has("optimizer.weight_decay")) return of_optimizer(optimizer_of, same_value)(value, all);
        bool decays = theirs == "adamw" || theirs == "adamw_8bit" || theirs == "schedule_free_adamw" || optimizer_of(all).empty();
        return carried(decays ? 0.01 : 0.0);
      },
      0.0);
  table << optimizer_number_rows("optimizer.", optimizer_of);
  table << rewritten(
      "optimizer.stochastic_rounding", "trained_weights",
      [](const Value& value, const Settings& all) {
        auto weights = all.text(part_of(all) + ".weight_dtype", "FLOAT_32");
        if (is_lora(all) || all.text("training_method") == "EMBEDDING") return left_out("");
        if (bits(Value(weights)) == "fp32") return carried("remainder");  // weights in fp32, multiplied in train_dtype
        return carried(asks_for_something(value) ? "stochastic" : "nearest");
      },
      true);
  number_rows(table);
  table << rewritten("learning_rate_scheduler", "lr_scheduler", schedule, "CONSTANT");
  table << rewritten("learning_rate_warmup_steps", "lr_warmup_steps", warmup, 200.0)
        << rewritten("learning_rate_warmup_steps", "lr_warmup_ratio", warmup_share, 200.0);
  table << rewritten(
      "learning_rate_cycles", "lr_scheduler_num_cycles",
      [](const Value& value, const Settings& all) {
        auto cycles = number_of(value).value_or(1);
        bool hard = lower(all.text("learning_rate_scheduler")) == "cosine_with_hard_restarts" && has_curve(all);
        return hard && cycles == std::floor(cycles) ? carried(value) : left_out("");
      },
      1.0);
  table << rewritten("learning_rate_min_factor", "lr_scheduler_min_lr_ratio", only(has_curve, same_value), 0.0);
}

void train_rows(Table& table) {
  rate_rows(table);
  memory_rows(table);
  table << rewritten(
      "batch_size", "batch_size",
      [](const Value& value, const Settings&) {
        return carried(value, number_of(value).value_or(1) > 1
                                  ? "samples of a size that do not fill a batch are left out of an epoch there, and "
                                    "are a smaller batch here"
                                  : "");
      },
      1);
  table << rewritten(
      "ema_decay", "ema_decay",
      [](const Value& value, const Settings& all) {
        if (!all.on("ema")) return left_out("");
        auto interval = all.number("ema_update_step_interval").value_or(5);
        auto number = number_of(value);
        if (!number || interval <= 1) return carried(value);
        return carried(std::pow(*number, 1 / interval),
                       fmt::format("the average moves at every step, not at every {:g}: what it keeps of itself in {:g} steps is the same",
                                   interval, interval));
      },
      0.999);
  for (const std::string part : {"unet", "transformer", "text_encoder", "text_encoder_2", "text_encoder_3"}) {
    bool is_encoder = part.starts_with("text_encoder");
    table << rewritten(
        part + ".stop_training_after", "",
        [part](const Value& value, const Settings& all) {
          bool is_there = part.starts_with("text_encoder") || part == part_of(all);
          return is_there ? stops(part, number_of(value).value_or(0), all) : left_out("");
        },
        is_encoder ? 30 : 0);
  }
}

}  // namespace burnish::foreign::of_onetrainer
