#include "models/parts/first_blocks.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace burnish::models {

namespace {

const std::string kFirstModulation = FirstBlocks::kFirst + ".modulation", kFirstText = FirstBlocks::kFirst + ".text",
                  kFirstBody = FirstBlocks::kFirst + ".body";
const std::string kLastModulation = FirstBlocks::kLast + ".modulation", kLastBody = FirstBlocks::kLast + ".body";

}  // namespace

std::vector<BlockStack> double_then_single(int64_t num_double, int64_t num_single) {
  return {{"transformer_blocks.", num_double}, {"single_transformer_blocks.", num_single}};
}

int64_t blocks_before_training(nn::Module& transformer, const Trains& trains, const BlockLayout& layout) {
  int64_t all = 0;
  for (const auto& stack : layout.stacks) all += stack.count;
  auto blocks_before = [&](const std::string& path) -> int64_t {
    int64_t before = 0;
    for (const auto& stack : layout.stacks) {
      if (path.starts_with(stack.path)) return before + std::stoll(path.substr(stack.path.size()));
      before += stack.count;
    }
    bool is_behind = std::ranges::any_of(layout.behind, [&](const auto& layer) { return path.starts_with(layer + "."); });
    return is_behind ? all : 0;
  };
  auto first = all;
  for (const auto& [path, slot] : transformer.parameters()) {
    if (trains(path)) first = std::min(first, blocks_before(path));
  }
  return first < layout.num_inseparable ? 0 : first;
}

std::vector<std::string> FirstBlocks::parts() const {
  std::vector<std::string> all{modulation()};
  if (has_text) all.push_back(text());
  if (count == 0) all.push_back(kBody);
  else if (modulates_each) all.insert(all.end(), {kFirstBody, kLastModulation, kLastBody});
  else all.insert(all.end(), {kFirstBody, kLast});
  return all;
}

mmdit::HeldLayers FirstBlocks::layers_of(const std::string& part) const {
  auto layers = mmdit::layers_of_part(part);
  if (part.starts_with(kFirst)) layers.end = count;
  if (!part.starts_with(kLast)) return layers;
  layers.begin = count;
  layers.modulation &= modulates_each;
  layers.text = false;
  return layers;
}

std::string FirstBlocks::settings(const std::string& part) const {
  const bool depends = part == kFirstBody || part.starts_with(kLast) || (modulates_each && part == kFirstModulation);
  return depends ? fmt::format("split after {} {}", count, what) : "";
}

std::string FirstBlocks::split(Components& components, int64_t num_first) {
  count = num_first;
  components.set_parts("dit", parts());
  return count > 0 ? kFirst : "";
}

std::string FirstBlocks::modulation() const { return count > 0 ? kFirstModulation : kModulation; }

std::string FirstBlocks::text() const { return count > 0 ? kFirstText : kText; }

std::string FirstBlocks::modulation_value(bool goes_on) const {
  return modulates_each && count > 0 && !goes_on ? "first_modulation" : "modulation";
}

pipeline::Units FirstBlocks::modulation_units(const Modulate& modulate, const std::vector<std::string>& times) const {
  auto unit = [&](const std::string& name, const std::vector<std::string>& reads, const std::vector<std::string>& writes,
                  const std::string& part) {
    return pipeline::Unit{name, reads, writes, {part}, [modulate, part, result = writes.back()](pipeline::Scope& s) {
                            s.uses(part);
                            s.write(result, modulate(s, part));
                          }};
  };
  if (!modulates_each || count == 0) return {unit("modulate", times, {"modulation"}, modulation())};
  return {unit("modulate_first", times, {"conditioning", modulation_value(false)}, kFirstModulation),
          unit("modulate", {"conditioning"}, {modulation_value(true)}, kLastModulation)};
}

pipeline::Units FirstBlocks::units(const std::vector<std::string>& reads, const Modulate& modulate, const Run& run,
                                   const std::vector<std::string>& times) const {
  auto blocks = [&](const std::string& name, const std::string& result, const std::string& part, bool goes_on) {
    auto own = reads;
    std::ranges::replace(own, "modulation", modulation_value(goes_on));
    const std::string replaced = has_text ? "text_tokens" : "text_embedding";
    if (goes_on && contains(own, replaced)) std::ranges::replace(own, replaced, "hidden_states");
    else if (goes_on) own.emplace_back("hidden_states");
    return pipeline::Unit{name, own, {result}, {part}, [run, part, result, goes_on](pipeline::Scope& s) {
                            s.uses(part);
                            s.write(result, run(s, part, goes_on));
                          }};
  };
  auto units = modulation_units(modulate, times);
  if (count == 0) {
    units.push_back(blocks("denoise", "prediction", kBody, false));
  } else {
    units.push_back(blocks("run_first_blocks", "hidden_states", kFirstBody, false));
    units.push_back(blocks("denoise", "prediction", modulates_each ? kLastBody : kLast, true));
  }
  return units;
}

}  // namespace burnish::models
