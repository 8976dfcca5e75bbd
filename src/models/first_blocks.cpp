#include "models/first_blocks.h"

#include <fmt/core.h>

#include <algorithm>

namespace burnish::models {

namespace {

const std::string kFirstModulation = FirstBlocks::kFirst + ".modulation", kFirstBody = FirstBlocks::kFirst + ".body";

}  // namespace

std::vector<std::string> FirstBlocks::parts() const {
  if (count == 0) return {kModulation, kBody};
  return {kFirstModulation, kFirstBody, kLast};
}

mmdit::Part FirstBlocks::part_of(const std::string& name) const {
  auto part = mmdit::part_named(name);
  if (name.starts_with(kFirst)) part.end = count;
  if (name.starts_with(kLast)) part.begin = count;
  if (name == kLast) part.modulation = false;
  return part;
}

std::string FirstBlocks::settings(const std::string& part) const {
  return part == kFirstBody || part == kLast ? fmt::format("split after {} {}", count, what) : "";
}

std::string FirstBlocks::modulation() const { return count > 0 ? kFirstModulation : kModulation; }

pipeline::Units FirstBlocks::units(const std::vector<std::string>& reads, const Modulate& modulate, const Run& run) const {
  using pipeline::Scope;
  auto blocks = [&](const std::string& name, const std::string& result, const std::string& part) {
    const bool goes_on = part == kLast;
    auto own = reads;
    if (goes_on) std::ranges::replace(own, "text_embedding", "hidden_states");
    return pipeline::Unit{name, own, {result}, {part}, [run, part, result, goes_on](Scope& s) {
                            s.uses(part);
                            s.write(result, run(s, part, goes_on));
                          }};
  };
  pipeline::Units units{{"modulate", {"sigma"}, {"modulation"}, {modulation()}, [modulate, part = modulation()](Scope& s) {
                           s.uses(part);
                           s.write("modulation", modulate(s, part));
                         }}};
  if (count == 0) {
    units.push_back(blocks("denoise", "prediction", kBody));
  } else {
    units.push_back(blocks("run_first_blocks", "hidden_states", kFirstBody));
    units.push_back(blocks("denoise", "prediction", kLast));
  }
  return units;
}

}  // namespace burnish::models
