#include "train/subject/slow_ways.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/dtype.h"
#include "base/text.h"

namespace burnish::train {

namespace {

constexpr double kSlower = 1.1;  // times as long, from which on it is said

/// Finds the sides that most numbers of a component's matrices have, each cut to a thousand: what is measured takes hundredths of a second
/// then. Zero where they are small.
quant::Sides sides_of(const models::Model& model, const std::string& component) {
  constexpr int64_t kSmall = 256, kMost = 1024, kMultiple = 32;
  std::map<quant::Sides, int64_t> numbers;
  const auto skeleton = model.components().skeleton(component);
  for (const auto& [path, weight] : skeleton->parameters()) {
    if (weight->dim() == 2) numbers[{weight->size(0), weight->size(1)}] += weight->numel();
  }
  const auto most = std::ranges::max_element(numbers, {}, [](const auto& entry) { return entry.second; });
  if (most == numbers.end() || std::min(most->first.out, most->first.in) < kSmall) return {0, 0};
  auto cut = [&](int64_t side) { return std::min(side, kMost) / kMultiple * kMultiple; };
  return {cut(most->first.out), cut(most->first.in)};
}

/// A way that options choose, the one without them, and what is said of both.
struct Compared {
  quant::Way way, other;
  std::string chosen, without, instead;
};

/// Compares each choice with the same layer without it, all others as they are.
std::vector<Compared> comparisons(const HeldAs& held, c10::ScalarType dtype, const std::string& dtype_text) {
  const quant::Way way{held.codes, held.option != nullptr, dtype};
  std::vector<Compared> all;
  if (held.option != nullptr)
    all.push_back({way, {held.codes, false, dtype}, held.option, "the same weights without it", fmt::format("leave {} out", held.option)});
  if (held.codes == CodeKind::int8_convrot)
    all.push_back({way,
                   {CodeKind::int8, way.by_codes, dtype},
                   "int8_convrot",
                   "int8",
                   "--weight_format int8 is faster, and rounds more where a few numbers are large"});
  if (dtype != c10::ScalarType::Float)
    all.push_back({way,
                   {held.codes, way.by_codes, c10::ScalarType::Float},
                   "dtype " + dtype_text,
                   "fp32",
                   "--dtype fp32 is faster where there is memory for it"});
  return all;
}

}  // namespace

std::vector<std::string> slow_ways(const models::Model& model, const ModelChoice& choice, c10::Device device, const TrainedStorage& trained,
                                   const Measure& measure) {
  std::vector<std::string> lines;
  if (!device.is_cpu()) return lines;
  const auto denoisers = model.names().denoisers();
  for (const auto& component : model.components().list()) {
    const auto held = held_as(model, component, choice, trained);
    if (!contains(denoisers, component.name) && !held.codes) continue;
    const auto sides = sides_of(model, component.name);
    if (sides.out == 0) continue;
    for (const auto& [way, other, chosen, without, instead] : comparisons(held, parse_dtype(choice.dtype), choice.dtype)) {
      const auto times = measure(way, other, sides);
      if (times < kSlower) continue;
      auto line = fmt::format("{} takes {:.1f} times as long as {} on this processor, in layers like those of {}: {}", chosen, times,
                              without, component.name, instead);
      if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
    }
  }
  return lines;
}

}  // namespace burnish::train
