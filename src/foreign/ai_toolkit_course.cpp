#include "foreign/ai_toolkit_course.h"

#include <fmt/core.h>

#include "base/text.h"
#include "foreign/ai_toolkit_ltx.h"
#include "foreign/ai_toolkit_model.h"
#include "foreign/ai_toolkit_terms.h"
#include "foreign/h3.h"

namespace burnish::foreign::of_ai_toolkit {

namespace {

/// Carries a schedule: ai-toolkit's are torch's, over its batches.
Outcome schedule(const Value& value, const Settings& all) {
  auto word = lower(text_of(value));
  auto of = [&](const char* name, double otherwise) {
    return all.number(std::string("train.lr_scheduler_params.") + name).value_or(otherwise);
  };
  if (word == "constant" || word == "constant_with_warmup") return carried("constant");
  if (word == "cosine" || word == "cosine_with_restarts")
    return carried("cosine", word == "cosine" ? "" : "one cycle as long as the run, which is all that it makes of restarts");
  if (word == "linear") {
    auto start = of("start_factor", 1. / 3), end = of("end_factor", 1.0);
    if (start == 1 && end >= 0 && end < 1) return carried("linear");
    if (start == 1 && end == 1) return carried("constant");
    return left_out(fmt::format(
        "goes from {:.3g} of the rate at the first step to {:.3g} at the last there, and no schedule here rises over a run: the "
        "rate stays constant; lr_warmup_steps rises over the steps it says",
        start, end));
  }
  return left_out("no such schedule: the rate stays constant");
}

/// Carries the rate that a curve ends at, as a share of the whole rate.
Outcome least_rate(const Value& value, const Settings& all) {
  auto rate = all.number("train.lr").value_or(1e-6);
  auto word = lower(all.text("train.lr_scheduler"));
  auto number = number_of(value);
  bool is_curve = word == "cosine" || word == "cosine_with_restarts";
  return is_curve && number && rate > 0 ? carried(*number / rate) : left_out(is_curve ? "is no number" : "");
}

/// Prodigy's rate is a factor on what it finds, and 1 for what looks like a rate of others.
Outcome rate(const Value& value, const Settings& all) {
  auto number = number_of(value);
  if (optimizer_of(all) != "prodigy" || !number || *number >= 0.1) return carried(value);
  return carried(1.0, "ai-toolkit takes 1 for prodigy where it is given less than 0.1");
}

/// The shift of a kind of model that has one for all sizes; 0 where it follows from the size.
double fixed_shift(const Settings& all) {
  static const std::vector<std::pair<const char*, double>> kShifts{
      {"minimax_h3", kShiftOfH3}, {"wan22_5b", 5}, {"wan2", 3},      {"zimage", 3},
      {"ernie_image", 3},         {"anima", 3},    {"ideogram4", 1}, {"boogu_image", 3}};
  const auto arch = all.text("model.arch");
  for (const auto& [kind, shift] : kShifts) {
    if (arch.starts_with(kind)) return shift;
  }
  return 0;
}

/// Tells whether times go by the shift of steps, which "shift" and "flux_shift" both say.
bool is_shifted(const std::string& kind) { return kind == "shift" || kind == "flux_shift"; }

Outcome sampling(const Value& value, const Settings& all) {
  if (!flows(all)) return left_out("");
  auto kind = text_of(value);
  if (kind == "sigmoid" || kind == "lognorm_blend") return carried(kind);
  if (kind == "linear") return carried("uniform");
  if (!is_shifted(kind)) return left_out("no such way to draw timesteps");
  if (is_ltx(all)) return carried("default");
  if (fixed_shift(all) > 0) return carried("sigma");
  return carried("flux_shift", "times are even before their shift there, and here nearer the middle");
}

void optimizer_rows(Table& table) {
  table << rewritten(
      "train.optimizer", "optimizer",
      [](const Value& value, const Settings& all) {
        auto name = optimizer_of(all), given = lower(text_of(value));
        if (name.empty()) return left_out(kNoOptimizer);
        if (name == "automagic" && given != "automagic3") return carried(name, kThirdAutomagic);
        return carried(name, given == "lion8bit" || given == "prodigy8bit" ? "states are not held in 8 bits" : "");
      },
      "adamw");
  table << rewritten(
      "train.optimizer_params.weight_decay", "weight_decay",
      [](const Value& value, const Settings& all) {
        auto theirs = lower(all.text("train.optimizer", "adamw"));
        if (all.has("train.optimizer_params.weight_decay")) return of_optimizer(optimizer_of, same_value)(value, all);
        bool decays = theirs.starts_with("adamw") || optimizer_of(all).empty();
        return carried(decays ? 0.01 : 0.0);
      },
      0.0);
  table << optimizer_number_rows("train.optimizer_params.", optimizer_of);
  table << rewritten(
      "train.optimizer", "optimizer_args",
      [](const Value&, const Settings& all) {
        return optimizer_numbers(optimizer_of(all), "train.optimizer_params.", all, {{"eps", "1e-6"}});
      },
      "adamw");
}

void schedule_rows(Table& table) {
  table << rewritten("train.lr_scheduler", "lr_scheduler", schedule, "constant");
  // torch's own, each with its numbers.
  table << rewritten("train.lr_scheduler", "lr_warmup_steps", [](const Value& value, const Settings& all) {
    if (lower(text_of(value)) != "constant_with_warmup") return left_out("");
    auto steps = updates(all.number("train.lr_scheduler_params.num_warmup_steps").value_or(1000), all);
    return carried(steps, note_on_warmup(static_cast<double>(steps)));
  });
  table << rewritten("train.lr_scheduler_params.num_warmup_steps", "", [](const Value&, const Settings& all) {
    return left_out(lower(all.text("train.lr_scheduler")) == "constant_with_warmup" ? "" : "its schedule has no warm-up");
  });
  table << rewritten("train.lr_scheduler_params.eta_min", "lr_scheduler_min_lr_ratio", of_optimizer(optimizer_of, least_rate));
  table << rewritten("train.lr_scheduler_params.end_factor", "lr_scheduler_min_lr_ratio", [](const Value& value, const Settings& all) {
    bool falls = lower(all.text("train.lr_scheduler")) == "linear" && all.number("train.lr_scheduler_params.start_factor") == 1.0;
    return falls && number_of(value).value_or(1) < 1 ? carried(value) : left_out("");
  });
  table << rewritten("train.lr_scheduler_params.factor", "", [](const Value& value, const Settings& all) {
    bool told = lower(all.text("train.lr_scheduler", "constant")) == "constant" && number_of(value) != 1.0;
    return left_out(told ? "a factor on the rate until the last step: write it into learning_rate" : "");
  });
}

}  // namespace

void train_rows(Table& table) {
  table << rewritten("train.lr", "learning_rate", of_optimizer(optimizer_of, rate), 1e-6);
  auto unread = [](const Value& value, const Settings& all) {
    bool told = number_of(value) != all.number("train.lr").value_or(1e-6);
    return left_out(told ? "ai-toolkit trains all parts of a model at lr, whatever this says" : "");
  };
  for (const char* name : {"train.unet_lr", "train.text_encoder_lr"}) table << rewritten(name, "", unread);
  table << rewritten("train.steps", "max_steps", counted_in_batches, 1000);
  table << same("train.batch_size", "batch_size").otherwise(1);
  table << rewritten("train.gradient_accumulation_steps", "gradient_accumulation_steps", [](const Value& value, const Settings&) {
             return number_of(value).value_or(1) < 1
                        ? left_out("an update for each epoch: say in gradient_accumulation_steps how many batches that are")
                        : carried(value);
           }).otherwise(1);
  table << rewritten("train.gradient_accumulation", "gradient_accumulation_steps", [](const Value& value, const Settings&) {
             return number_of(value).value_or(1) > 1 ? carried(value) : left_out("");
           }).otherwise(1);
  optimizer_rows(table);
  schedule_rows(table);
  table << rewritten(
      "train.ema_config.ema_decay", "ema_decay",
      [](const Value& value, const Settings& all) { return all.on("train.ema_config.use_ema") ? carried(value) : left_out(""); }, 0.999);
}

void loss_rows(Table& table) {
  table << rewritten("train.timestep_type", "timestep_sampling", sampling, "sigmoid");
  table << rewritten("train.timestep_type", "discrete_flow_shift", [](const Value& value, const Settings& all) {
    return flows(all) && is_shifted(text_of(value)) && fixed_shift(all) > 0 ? carried(fixed_shift(all)) : left_out("");
  });
  table << rewritten(
      "train.noise_scheduler", "loss_weighting", [](const Value&, const Settings&) { return carried("uniform"); }, "ddpm");
  table << rewritten("train.prompt_dropout_prob", "caption_dropout", [](const Value& value, const Settings&) {
             return asks_for_something(value) ? carried(value) : left_out("");
           }).otherwise(0.0);
  auto share = [](const Value& value, const Settings&) { return carried(rest_of(number_of(value).value_or(0) / 1000)); };
  table << rewritten("train.min_denoising_steps", "max_timestep_boundary", share, 0);
  table << rewritten("train.max_denoising_steps", "min_timestep_boundary", [](const Value& value, const Settings& all) {
             auto last = number_of(value).value_or(999);
             return last >= 999 || is_ai_toolkit_slider_of_targets(all) ? left_out("") : carried(rest_of(last / 1000));
           }).otherwise(999);
  table << ai_toolkit_preservation_rows() << ai_toolkit_guidance_rows();
}

}  // namespace burnish::foreign::of_ai_toolkit
