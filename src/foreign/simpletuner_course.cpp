#include "foreign/simpletuner_course.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "foreign/h3.h"
#include "foreign/simpletuner_h3.h"
#include "foreign/simpletuner_model.h"

namespace burnish::foreign::of_simpletuner {

namespace {

/// An optimizer of ours, with what theirs takes where nothing is given.
struct Theirs {
  std::string ours, betas, eps;
  double weight_decay = 0.01;
};

const std::map<std::string, Theirs>& optimizers() {
  static const std::map<std::string, Theirs> kOptimizers{
      {"adamw_bf16", {"adamw", "", "1e-6"}},
      {"torch-adamw", {"adamw", "", ""}},
      {"optimi-adamw", {"adamw", "0.9,0.99", "1e-6", 0.0}},
      {"bnb-adamw", {"adamw", "", "1e-6"}},
      {"bnb-adamw-paged", {"adamw", "", "1e-6"}},
      {"bnb-adamw8bit", {"adamw8bit", "", "1e-6"}},
      {"bnb-adamw8bit-paged", {"adamw8bit", "", "1e-6"}},
      {"ao-adamw8bit", {"adamw8bit", "", "1e-6"}},
      {"optimi-lion", {"lion", "0.9,0.99", "", 0.0}},
      {"bnb-lion", {"lion", "0.9,0.99", "", 0.0}},
      {"bnb-lion-paged", {"lion", "0.9,0.99", "", 0.0}},
      {"bnb-lion8bit", {"lion", "0.9,0.99", "", 0.0}},
      {"bnb-lion8bit-paged", {"lion", "0.9,0.99", "", 0.0}},
      {"adamw_schedulefree", {"adamw_schedulefree", "0.9,0.999", ""}},
      {"adamw_schedulefree+aggressive", {"adamw_schedulefree", "0.9,0.999", "1e-6", 0.001}},
      {"adamw_schedulefree+no_kahan", {"adamw_schedulefree", "0.9,0.999", "1e-6", 0.001}},
      {"prodigy", {"prodigy_schedulefree", "0.9,0.99", "", 0.0}}};
  return kOptimizers;
}

const Theirs* theirs(const Settings& all) {
  auto it = optimizers().find(lower(all.text("optimizer", "adamw_bf16")));
  return it == optimizers().end() ? nullptr : &it->second;
}
std::string optimizer_of(const Settings& all) { return theirs(all) == nullptr ? "" : theirs(all)->ours; }

Outcome numbers(const Value&, const Settings& all) {
  if (theirs(all) == nullptr) return left_out("");
  std::map<std::string, std::string> others;
  const bool has_betas = all.has("optimizer_beta1") && all.has("optimizer_beta2");
  if (has_betas) others["betas"] = all.text("optimizer_beta1") + "," + all.text("optimizer_beta2");
  else if (!theirs(all)->betas.empty()) others["betas"] = theirs(all)->betas;
  if (!theirs(all)->eps.empty()) others["eps"] = theirs(all)->eps;
  return optimizer_numbers(optimizer_of(all), "optimizer_numbers.", all, others);
}

bool clips_norms(const Settings& all) { return lower(all.text("grad_clip_method", "value")) == "norm"; }

std::string schedule_of(const Settings& all) { return lower(all.text("lr_scheduler", "constant_with_warmup")); }
bool is_wave(const std::string& schedule) { return schedule == "cosine" || schedule == "sine" || schedule == "cosine_with_restarts"; }

/// Carries a schedule. SimpleTuner's cosine has no warm-up: lr_warmup_steps is the time in which it falls once, behind which it rises
/// again. So it is a run's only where the two are as long.
Outcome schedule(const Value&, const Settings& all) {
  static const std::map<std::string, std::string> kSchedules{
      {"constant", "constant"}, {"constant_with_warmup", "constant"}, {"linear", "linear"}, {"polynomial", "polynomial"}};
  const auto word = schedule_of(all);
  if (auto it = kSchedules.find(word); it != kSchedules.end()) return carried(it->second);
  if (!is_wave(word)) return left_out("no such schedule: the rate stays constant");
  const auto fall = all.number("lr_warmup_steps").value_or(0);
  if (word == "cosine" && fall > 0 && fall == all.number("max_train_steps")) return carried("cosine");
  return left_out(
      fmt::format("there it falls over lr_warmup_steps, {} steps, and begins again; here a cosine falls over the whole run, and the rate "
                  "stays constant",
                  fall > 0 ? fall : 1000.0));
}

Outcome end_of_schedule(const Value& value, const Settings& all) {
  const auto rate = all.number("learning_rate").value_or(4e-7), end = number_of(value).value_or(0);
  const bool falls =
      schedule_of(all) == "polynomial" || (schedule_of(all) == "cosine" && all.number("lr_warmup_steps") == all.number("max_train_steps"));
  return falls && end > 0 && rate > end ? carried(end / rate) : left_out("");
}

/// Static, by the picture's size, or none, where both are given by size. What all models begin with is corrected for MiniMax-H3.
double shift_of(const Settings& all) {
  constexpr double kOfAll = 3;
  if (family(all) == "flux3_image") return 6.93;
  if (family(all) == "moss_image") return 0;
  const auto given = all.number("flow_schedule_shift").value_or(kOfAll);
  if (is_h3(all) && given == kOfAll) return kShiftOfH3;
  return all.on("flow_schedule_auto_shift") ? 0 : std::max(0.0, given);
}

Outcome sampling(const Value&, const Settings& all) {
  if (has_unet(all) || family(all).empty()) return left_out("");
  if (family(all) == "ideogram") return carried("ideogram4_shift");
  const bool is_moss = family(all) == "moss_image";
  const bool by_size = all.on("flow_schedule_auto_shift") && family(all) != "flux3_image" && !is_moss,
             is_uniform = all.on("flow_use_uniform_schedule");
  if (is_uniform && by_size) return left_out("uniform draws are shifted by one number here (discrete_flow_shift)");
  if (is_moss && !is_uniform) return carried("logit_normal_cut", "in 1000 levels there");
  if (is_uniform) return shift_of(all) > 0 ? carried("sigma", "in 1000 levels") : carried("uniform");
  if (by_size) return carried(family(all) == "qwen_image" ? "qwen_shift" : "flux_shift");
  return carried(shift_of(all) > 0 ? "shift" : "sigmoid");
}

}  // namespace

void optimizer_rows(Table& table) {
  table << rewritten("optimizer", "optimizer", [](const Value& value, const Settings& all) {
             if (theirs(all) == nullptr) return left_out(kNoOptimizer);
             const bool is_lion8 = text_of(value).find("lion8") != std::string::npos;
             return carried(optimizer_of(all), is_lion8 ? "its states are whole numbers here, of eight bits there" : "");
           }).otherwise("adamw_bf16");
  table << rewritten("optimizer", "optimizer_args", numbers).otherwise("adamw_bf16");
  table << rewritten("optimizer", "weight_decay", [](const Value&, const Settings& all) {
             if (theirs(all) == nullptr) return left_out("");
             const auto* given = all.find("optimizer_numbers.weight_decay");
             return carried(given ? *given : Value(theirs(all)->weight_decay));
           }).otherwise("adamw_bf16");
  table << optimizer_number_rows("optimizer_numbers.", optimizer_of);
  table << rewritten("learning_rate", "learning_rate", of_optimizer(optimizer_of, same_value)).otherwise(4e-7);
  table << rewritten("max_grad_norm", "max_grad_norm", [](const Value& value, const Settings& all) {
             if (optimizer_of(all) == "prodigy_schedulefree" || !asks_for_something(value)) return left_out("");
             return clips_norms(all) ? carried(value)
                                     : left_out(
                                           "grad_clip_method value, which it takes by itself, holds every number of a gradient within it; "
                                           "here max_grad_norm clips the norm of all");
           }).otherwise(2.0);
  table << rewritten("grad_clip_method", "", [](const Value& value, const Settings&) {
             const auto word = lower(text_of(value));
             return left_out(word == "norm" || word == "value" ? "" : "no such way to clip gradients");
           }).otherwise("value");
  table << rewritten("optimizer_release_gradients", "fused_backward_pass", [](const Value& value, const Settings&) {
             return if_on(value, true);
           }).otherwise(false);
  table << rewritten("optimizer_cpu_offload_method", "enable_optimizer_cpu_offload",
                     [](const Value& value, const Settings&) { return if_on(value, true); });
}

void schedule_rows(Table& table) {
  table << rewritten("lr_scheduler", "lr_scheduler", schedule).otherwise("constant_with_warmup");
  table << rewritten("lr_warmup_steps", "lr_warmup_steps", [](const Value& value, const Settings& all) {
             const auto word = schedule_of(all);
             return is_wave(word) || word == "constant" ? left_out("") : carried(value, note_on_warmup(number_of(value).value_or(0)));
           }).otherwise(0);
  table << rewritten("lr_end", "lr_scheduler_min_lr_ratio", end_of_schedule).otherwise(4e-7);
  table << rewritten("lr_power", "lr_scheduler_power", [](const Value& value, const Settings& all) {
             return schedule_of(all) == "polynomial" ? carried(value) : left_out("");
           }).otherwise(0.8);
  table << rewritten("num_train_epochs", "num_epochs", [](const Value& value, const Settings& all) {
             return all.on("max_train_steps") || !asks_for_something(value) ? left_out("") : carried(value);
           }).otherwise(1);
  table << rewritten("gradient_accumulation_steps", "gradient_accumulation_steps", accumulated).otherwise(1);
  table << rewritten("use_ema", "ema_decay", [](const Value& value, const Settings& all) {
             return asks_for_something(value) ? carried(all.number("ema_decay").value_or(0.995)) : left_out("");
           }).otherwise(false);
}

void time_rows(Table& table) {
  table << rewritten("model_family", "timestep_sampling", sampling);
  table << rewritten("flow_schedule_shift", "discrete_flow_shift", [](const Value&, const Settings& all) {
             const bool counts = !has_unet(all) && !family(all).empty() && family(all) != "ideogram" && shift_of(all) > 0;
             return counts ? carried(shift_of(all)) : left_out("");
           }).otherwise(3.0);
  table << rewritten("flow_sigmoid_scale", "sigmoid_scale", [](const Value& value, const Settings& all) {
             if (family(all) == "moss_image")
               return left_out(number_of(value) == 1.0 ? "" : "the density of MOSS-Image (logit_normal_cut) has one width here");
             return has_unet(all) || family(all) == "ideogram" || all.on("flow_use_uniform_schedule") ? left_out("") : carried(value);
           }).otherwise(1.0);
}

void loss_rows(Table& table) {
  table << rewritten("model_family", "loss_weighting", [](const Value&, const Settings&) { return carried("uniform"); });
  auto of_robust = [](const Value& value, const Settings& all) {
    const auto type = lower(all.text("loss_type", "l2"));
    return type == "huber" || type == "smooth_l1" ? carried(value) : left_out("");
  };
  table << rewritten("huber_schedule", "huber_schedule", of_robust, "snr") << rewritten("huber_c", "huber_c", of_robust, 0.1);
  table << rewritten("snr_gamma", "min_snr_gamma", only(has_unet, same_value));
  table << rewritten("offset_noise", "noise_offset",
                     only(has_unet,
                          [](const Value& value, const Settings& all) {
                            if (!asks_for_something(value)) return left_out("");
                            const auto share = all.number("noise_offset_probability").value_or(0.25);
                            return carried(all.number("noise_offset").value_or(0.1),
                                           share < 1 ? "of every batch here, of a share of them there (noise_offset_probability)" : "");
                          }))
               .otherwise(false);
}

}  // namespace burnish::foreign::of_simpletuner
