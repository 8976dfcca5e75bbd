#include "train/objectives/passes.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/input_error.h"
#include "base/text.h"
#include "nn/delta_strength.h"
#include "pipeline/labels.h"

namespace burnish::train {

namespace {

bool writes(const pipeline::Units& units, const std::string& value) {
  return std::ranges::any_of(units, [&](const auto& unit) { return contains(unit.writes, value); });
}

/// Refuses to train what has no strength but 1.
void check_has_strength(const Chosen& chosen) {
  auto is_dora = [](const auto& of) {
    return std::ranges::any_of(of.options, [](const auto& options) { return options.second.type == "dora"; }) ||
           std::ranges::any_of(of.weights, [](const auto& weights) { return weights.magnitude.m.defined(); });
  };
  const bool has_magnitude = std::ranges::any_of(chosen.adapted, is_dora);
  if (!has_magnitude && chosen.whole.empty()) return;
  config_error("train", "what is learned is to be seen at several strengths, and {} none but 1; train lora, loha, lokr, oft or full",
               has_magnitude ? "the magnitudes of a DoRA have" : "weights that train whole have");
}

/// Makes the twins with the trained adapters at another strength.
pipeline::Units units_at(double strength, const pipeline::Units& units, const Subject& subject) {
  check_has_strength(subject.chosen);
  auto all = pipeline::twins(units, {.prefix = Pass{.strength = strength}.prefix(), .turned = subject.chosen.models(*subject)});
  for (auto& unit : all) {
    unit.run = [run = unit.run, strength](pipeline::Scope& scope) {
      nn::DeltaStrength at(strength * nn::DeltaStrength::current());
      run(scope);
    };
  }
  return all;
}

}  // namespace

std::string Pass::prefix() const {
  if (before_training) return kReference + prompt;
  return strength == 1 ? prompt : fmt::format("at_{}_{}", strength, prompt);
}

Input prompt_input(const std::string& prefix, std::function<std::string(const Sample&)> text_of) {
  auto content = [text_of](const Samples& samples, const Pick& pick, const data::RowHashes&) {
    if (pick.row == kNoRow) return std::string();
    const auto text = text_of(samples.at(pick.row));
    return fmt::format("text of {} bytes {}", text.size(), text);
  };
  return {prefix + "prompt", true, content,
          [text_of](const Samples& samples, const Pick& pick) -> pipeline::Value { return text_of(samples.at(pick.row)); }};
}

pipeline::Units at_strength_of_samples(pipeline::Units own, const Subject& subject) {
  check_has_strength(subject.chosen);
  const auto trained = subject.chosen.models(*subject);
  for (auto& unit : own) {
    if (std::ranges::none_of(unit.models, [&](const auto& model) { return pipeline::is_trained(model, trained); })) continue;
    unit.reads.emplace_back(kSliderStrength);
    unit.run = [run = unit.run](pipeline::Scope& scope) {
      nn::DeltaStrength at(scope.tensor(kSliderStrength).item<double>() * nn::DeltaStrength::current());
      run(scope);
    };
  }
  return own;
}

pipeline::Units with_passes(const pipeline::Units& own, const Subject& subject, const std::vector<Pass>& needed) {
  std::set<std::string> prompts;
  std::set<double> strengths;
  for (const auto& pass : needed) {
    if (!pass.prompt.empty()) prompts.insert(pass.prompt);
    if (pass.strength != 1 && !pass.before_training) strengths.insert(pass.strength);
  }
  auto all = own;
  auto add = [&](const pipeline::Units& more) { all.insert(all.end(), more.begin(), more.end()); };
  for (const auto& prompt : prompts) add(pipeline::twins(own, {.prefix = prompt, .values = {"prompt"}}));
  const auto trained = all;
  for (auto strength : strengths) add(units_at(strength, trained, subject));
  add(reference_units(trained, subject));
  for (const auto& pass : needed) {
    if (!writes(all, pass.prefix() + "prediction"))
      config_error("train",
                   "what this model predicts does not depend on its prompt, and the loss asks for another one; take that term out");
  }
  return all;
}

std::set<std::string> units_without_gradient(const pipeline::Units& units, const std::vector<Pass>& needed) {
  std::set<std::string> names;
  for (const auto& unit : units) {
    if (unit.prefix.empty()) continue;
    auto learns = [&](const Pass& pass) { return !pass.before_training && pass.has_gradient && pass.prefix() == unit.prefix; };
    if (std::ranges::none_of(needed, learns)) names.insert(unit.name);
  }
  return names;
}

}  // namespace burnish::train
