#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>

#include "base/choice.h"
#include "base/log.h"
#include "optim/arguments.h"
#include "optim/optimizer.h"
#include "optim/rules.h"

namespace burnish::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPositive = std::numeric_limits<double>::min();

/// The rule of each parameter.
using RuleOf = std::function<RulePtr(const at::Tensor& value)>;

AdamWOptions adamw_options(Arguments& args) {
  AdamWOptions options;
  args.take_betas(options.beta1, options.beta2);
  args.take("eps", options.eps, 0, kInfinity);
  return options;
}

/// Between the average and where gradients are taken, so both can be told from it.
void check_has_average(double beta1) {
  if (!(beta1 > 0))
    config_error("optim", "beta1 of a schedule-free optimizer must be above 0: it says how near to the average gradients are taken");
}

LionOptions lion_options(Arguments& args) {
  LionOptions options;
  args.take_betas(options.beta1, options.beta2);
  return options;
}

AdEMAMixOptions ademamix_options(Arguments& args) {
  AdEMAMixOptions o;
  args.take_betas(o.beta1, o.beta2);
  args.take("beta3", o.beta3, kPositive, 1);
  args.take("eps", o.eps, 0, kInfinity);
  args.take("alpha", o.alpha, 0, kInfinity);
  args.take("t_alpha", o.t_alpha, 0);
  args.take("t_beta3", o.t_beta3, 0);
  if (o.t_beta3 > 0 && !(o.beta1 > 0))
    config_error("optim", "t_beta3 of ademamix lets beta3 rise from beta1, which must be above 0 for that");
  return o;
}

AdafactorOptions adafactor_options(Arguments& args) {
  AdafactorOptions o;
  args.take("beta1", o.beta1, 0, 1);
  args.take("decay_rate", o.decay_rate, -kInfinity, 0);
  args.take("clip_threshold", o.clip_threshold, kPositive, kInfinity);
  args.take("eps1", o.eps1, 0, kInfinity);
  args.take("eps2", o.eps2, 0, kInfinity);
  args.take("scale_parameter", o.scale_parameter);
  args.take("relative_step", o.relative_step);
  args.take("warmup_init", o.warmup_init);
  if (o.warmup_init && !o.relative_step)
    config_error("optim",
                 "warmup_init of adafactor is a warm-up of relative steps; set relative_step=true, or take it out for lr_warmup_steps");
  return o;
}

CameOptions came_options(Arguments& args) {
  CameOptions o;
  args.take_betas(o.beta1, o.beta2);
  args.take("beta3", o.beta3, 0, 1);
  args.take("clip_threshold", o.clip_threshold, kPositive, kInfinity);
  args.take("eps1", o.eps1, 0, kInfinity);
  args.take("eps2", o.eps2, 0, kInfinity);
  return o;
}

AutomagicOptions automagic_options(Arguments& args) {
  AutomagicOptions o;
  args.take("beta2", o.beta2, 0, 1);
  args.take("eps", o.eps, 0, kInfinity);
  args.take("clip_threshold", o.clip_threshold, kPositive, kInfinity);
  args.take("polarity_history", o.polarity_history, 2);
  if (o.polarity_history > 8)
    config_error("optim", "polarity_history of automagic must be from 2 to 8, the signs that a byte holds, not {}", o.polarity_history);
  return o;
}

/// Takes the arguments of both kinds.
void take_distance(Arguments& args, ProdigyOptions& o) {
  args.take_betas(o.beta1, o.beta2);
  args.take("beta3", o.beta3, 0, 1);
  args.take("eps", o.eps, 0, kInfinity);
  args.take("d0", o.d0, kPositive, kInfinity);
  args.take("d_coef", o.d_coef, kPositive, kInfinity);
  args.take("slice_p", o.slice_p, 1);
}

ProdigyOptions prodigy_options(Arguments& args) {
  ProdigyOptions o;
  take_distance(args, o);
  args.take("growth_rate", o.growth_rate, 1, kInfinity);
  args.take("use_bias_correction", o.use_bias_correction);
  args.take("safeguard_warmup", o.safeguard_warmup);
  return o;
}

ProdigyOptions prodigy_schedulefree_options(Arguments& args) {
  ProdigyOptions o{.beta2 = 0.99, .slice_p = 11};
  take_distance(args, o);
  check_has_average(o.beta1);
  return o;
}

ScheduleFreeOptions schedule_free_options(Arguments& args) {
  ScheduleFreeOptions o;
  args.take_betas(o.beta1, o.beta2);
  args.take("eps", o.eps, 0, kInfinity);
  args.take("r", o.r, 0, kInfinity);
  args.take("weight_lr_power", o.weight_lr_power, 0, kInfinity);
  check_has_average(o.beta1);
  return o;
}

MuonOptions muon_options(Arguments& args) {
  MuonOptions o;
  std::string size = "match_rms_adamw";
  args.take("momentum", o.momentum, 0, 1);
  args.take("nesterov", o.nesterov);
  args.take("ns_steps", o.ns_steps, 1);
  args.take("adjust_lr_fn", size, {"match_rms_adamw", "original"});
  o.match_rms_adamw = size == "match_rms_adamw";
  return o;
}

RuleOf for_all(RulePtr rule) {
  return [rule = std::move(rule)](const at::Tensor&) { return rule; };
}

/// One rule for parameters that `fits` and another for the rest.
RuleOf by(bool (*fits)(const at::Tensor&), RulePtr rule, RulePtr rest) {
  return [=](const at::Tensor& value) { return fits(value) ? rule : rest; };
}

/// The meaning of a rate to an optimizer: the rate, a factor on one that it finds, or where the one that it finds begins.
enum class Rate { given, found, begun };

struct Choice {
  std::string name;
  Rate rate;
  RuleOf (*make)(Arguments& args);
};

const std::vector<Choice>& choices() {
  static const std::vector<Choice> list{
      {"adamw", Rate::given, [](Arguments& args) { return for_all(adamw(adamw_options(args))); }},
      {"adamw8bit", Rate::given,
       [](Arguments& args) {
         auto options = adamw_options(args);
         return by([](const at::Tensor& value) { return value.numel() >= kSmallestIn8Bits; }, adamw8bit(options), adamw(options));
       }},
      {"ademamix", Rate::given, [](Arguments& args) { return for_all(ademamix(ademamix_options(args))); }},
      {"ademamix8bit", Rate::given,
       [](Arguments& args) {
         auto options = ademamix_options(args);
         return by([](const at::Tensor& value) { return value.numel() >= kSmallestIn8Bits; }, ademamix8bit(options), ademamix(options));
       }},
      {"adafactor", Rate::given, [](Arguments& args) { return for_all(adafactor(adafactor_options(args))); }},
      {"automagic", Rate::begun, [](Arguments& args) { return for_all(automagic(automagic_options(args))); }},
      {"lion", Rate::given, [](Arguments& args) { return for_all(lion(lion_options(args))); }},
      {"prodigy", Rate::found, [](Arguments& args) { return for_all(prodigy(prodigy_options(args))); }},
      {"prodigy_schedulefree", Rate::found,
       [](Arguments& args) { return for_all(prodigy_schedulefree(prodigy_schedulefree_options(args))); }},
      {"adamw_schedulefree", Rate::given, [](Arguments& args) { return for_all(adamw_schedulefree(schedule_free_options(args))); }},
      {"came", Rate::given, [](Arguments& args) { return for_all(came(came_options(args))); }},
      {"muon", Rate::given,
       [](Arguments& args) {
         auto options = muon_options(args);
         return by([](const at::Tensor& value) { return value.dim() == 2; }, muon(options), adamw(adamw_options(args)));
       }},
  };
  return list;
}

const Choice& chosen(const OptimizerOptions& options) {
  auto found = std::ranges::find(choices(), options.name, &Choice::name);
  if (found == choices().end()) unknown_choice("optim", "optimizer", options.name, optimizers());
  return *found;
}

RuleOf rule_of(const OptimizerOptions& options) {
  Arguments args(options.name, options.args);
  RuleOf rule = chosen(options).make(args);
  args.finish();
  if (!options.cautious) return rule;
  // Parameters that share a rule share what it became.
  return [rule, made = std::make_shared<std::map<RulePtr, RulePtr>>()](const at::Tensor& value) {
    const RulePtr plain = rule(value);
    auto& of_plain = (*made)[plain];
    if (!of_plain) of_plain = cautious(plain);
    return of_plain;
  };
}

}  // namespace

std::vector<std::string> optimizers() {
  std::vector<std::string> names;
  for (const auto& choice : choices()) names.push_back(choice.name);
  return names;
}

bool is_schedule_free(const OptimizerOptions& options) { return options.name.ends_with("_schedulefree"); }

void check(const OptimizerOptions& options) {
  rule_of(options);
  // Their decay goes by a rate of their own, or what they keep follows from where the parameter went.
  Arguments args(options.name, options.args);
  const bool has_own_rate =
      chosen(options).rate != Rate::given ||
      (options.name == "adafactor" && (adafactor_options(args).scale_parameter || adafactor_options(args).relative_step));
  if (options.cautious && (is_schedule_free(options) || has_own_rate))
    config_error("optim",
                 "cautious leaves a part of every update out, and {} goes by its whole updates or has a rate of its own; take it out",
                 options.name);
  if (!(options.weight_decay >= 0)) config_error("optim", "weight_decay must not be negative, found {}", options.weight_decay);
}

void check(const OptimizerOptions& options, const ScheduleOptions& schedule, double learning_rate) {
  check(options);
  check(schedule);
  const Rate rate = chosen(options).rate;
  if (is_schedule_free(options) && !is_constant(schedule))
    config_error("optim", "{} averages its steps instead of lowering the rate, and lr_scheduler {} lowers it as well; set it to constant",
                 options.name, schedule.name);
  if (rate == Rate::found && !(learning_rate >= 0.1 && learning_rate <= 10))
    warn("{} finds the rate itself and learning_rate is a factor on it, which should be about 1; found {}", options.name, learning_rate);
  if (options.name != "adafactor") return;
  Arguments args(options.name, options.args);
  if (adafactor_options(args).relative_step && (!is_constant(schedule) || schedule.warmup_steps > 0))
    config_error(
        "optim",
        "relative_step of adafactor makes its own rate and reads neither learning_rate nor lr_scheduler; set lr_scheduler to constant "
        "without lr_warmup_steps (warmup_init=true warms up), or relative_step=false");
}

bool needs_all_gradients(const OptimizerOptions& options) {
  const at::Tensor matrix = at::empty({kSmallestIn8Bits, 1}, at::TensorOptions().device(at::kMeta));
  return rule_of(options)(matrix)->looks_first();
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, ParameterList parameters,
                                          std::shared_ptr<memory::HostStore> host) {
  check(options);
  const RuleOf rule_of_value = rule_of(options);
  std::vector<RulePtr> rules;
  for (NamedParameter& parameter : parameters) {
    if (!at::isFloatingType(parameter.value.scalar_type()) || parameter.value.element_size() < 2) {
      config_error("optim", "expected fp32, bf16 or fp16 parameters, found {} of dtype {}", parameter.name,
                   c10::toString(parameter.value.scalar_type()));
    }
    if (!parameter.weight_decay) parameter.weight_decay = options.weight_decay;
    rules.push_back(rule_of_value(parameter.value));
  }
  complete(parameters, options.rounding);
  return std::make_unique<Optimizer>(std::move(parameters), std::move(rules), options.seed, std::move(host));
}

}  // namespace burnish::optim
