#include "train/objectives/passes.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace burnish::train {

namespace {

pipeline::Units without_gradient(pipeline::Units units) {
  for (auto& unit : units) {
    unit.run = [run = unit.run](pipeline::Scope& scope) {
      at::NoGradGuard no_grad;
      run(scope);
    };
  }
  return units;
}

bool writes(const pipeline::Units& units, const std::string& value) {
  return std::ranges::any_of(units, [&](const auto& unit) { return contains(unit.writes, value); });
}

}  // namespace

pipeline::Units with_passes(const pipeline::Units& own, const Subject& subject, const std::set<std::string>& with_gradient,
                            const std::vector<Pass>& needed) {
  auto all = own;
  auto add = [&](const pipeline::Units& more) { all.insert(all.end(), more.begin(), more.end()); };
  for (const auto& prompt : {kNegative, kOfClass}) {
    auto others = pipeline::twins(own, {.prefix = prompt, .values = {"prompt"}});
    add(with_gradient.contains(prompt) ? others : without_gradient(std::move(others)));
  }
  add(reference_units(all, subject));
  for (const auto& pass : needed) {
    if (!writes(all, pass.prefix() + "prediction"))
      config_error("train", "what this model predicts does not depend on its prompt, and the loss asks for another one; take that term out");
  }
  return all;
}

}  // namespace burnish::train
