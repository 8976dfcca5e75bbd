#include <functional>
#include <limits>

#include "base/choice.h"
#include "optim/arguments.h"
#include "optim/optimizer.h"
#include "optim/rules.h"

namespace burnish::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The rule of each parameter.
using RuleOf = std::function<RulePtr(const at::Tensor& value)>;

AdamWOptions adamw_options(Arguments& args) {
  AdamWOptions options;
  args.take_betas(options.beta1, options.beta2);
  args.take("eps", options.eps, 0, kInfinity);
  return options;
}

RuleOf for_all(RulePtr rule) {
  return [rule = std::move(rule)](const at::Tensor&) { return rule; };
}

struct Choice {
  std::string name;
  RuleOf (*make)(Arguments& args);
};

const std::vector<Choice>& choices() {
  static const std::vector<Choice> list{
      {"adamw", [](Arguments& args) { return for_all(adamw(adamw_options(args))); }},
  };
  return list;
}

RuleOf rule_of(const OptimizerOptions& options) {
  std::vector<std::string> names;
  for (const Choice& choice : choices()) {
    names.push_back(choice.name);
    if (choice.name != options.name) continue;
    Arguments args(options.name, options.args);
    RuleOf rule = choice.make(args);
    args.finish();
    return rule;
  }
  unknown_choice("optim", "optimizer", options.name, names);
}

}  // namespace

void check(const OptimizerOptions& options) {
  rule_of(options);
  if (!(options.weight_decay >= 0)) config_error("optim", "weight_decay must not be negative, found {}", options.weight_decay);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, ParameterList parameters) {
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
  return std::make_unique<Optimizer>(std::move(parameters), std::move(rules), options.seed);
}

}  // namespace burnish::optim
