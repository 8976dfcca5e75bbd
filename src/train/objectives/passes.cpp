#include "train/objectives/passes.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace burnish::train {

namespace {

bool writes(const pipeline::Units& units, const std::string& value) {
  return std::ranges::any_of(units, [&](const auto& unit) { return contains(unit.writes, value); });
}

}  // namespace

pipeline::Units with_passes(const pipeline::Units& own, const Subject& subject, const std::vector<Pass>& needed) {
  auto all = own;
  auto add = [&](const pipeline::Units& more) { all.insert(all.end(), more.begin(), more.end()); };
  for (const auto& prompt : {kNegative, kOfClass}) add(pipeline::twins(own, {.prefix = prompt, .values = {"prompt"}}));
  add(reference_units(all, subject));
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
    if (unit.prefix != kNegative && unit.prefix != kOfClass) continue;
    auto learns = [&](const Pass& pass) { return pass.prompt == unit.prefix && pass.has_gradient && !pass.before_training; };
    if (std::ranges::none_of(needed, learns)) names.insert(unit.name);
  }
  return names;
}

}  // namespace burnish::train
