#include "data/augmentation.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/random_key.h"

namespace burnish::data {

namespace {

std::array<const Amount*, 5> amounts(const Augmentation& a) { return {&a.rotate, &a.brightness, &a.contrast, &a.saturation, &a.hue}; }

}  // namespace

bool Augmentation::varies() const {
  return random_crop || random_flip || std::ranges::any_of(amounts(*this), [](const auto* amount) { return amount->random > 0; });
}

bool Augmentation::alters() const {
  return !std::ranges::all_of(amounts(*this), [](const auto* amount) { return amount->is_none(); });
}

bool Augmentation::is_any() const { return random_crop || random_flip || fixed_flip || alters(); }

Alteration alteration_of(const Augmentation& augmentation, uint64_t name, int64_t variant) {
  const auto key = RandomKey{0, static_cast<uint64_t>(variant) + 1, name, Purpose::augmentation}.value();
  const auto of = [&](const Amount& amount, std::string_view what) {
    if (amount.random == 0) return amount.fixed;
    return amount.random * (2 * CounterRandom(mix64(key ^ mix64(what))).uniform() - 1);
  };
  const auto factor = [&](const Amount& amount, std::string_view what) { return std::max(0.0, 1 + of(amount, what)); };
  return {.angle = of(augmentation.rotate, "rotate"),
          .brightness = factor(augmentation.brightness, "brightness"),
          .contrast = factor(augmentation.contrast, "contrast"),
          .saturation = factor(augmentation.saturation, "saturation"),
          .hue = std::clamp(of(augmentation.hue, "hue") / 2, -0.5, 0.5)};
}

}  // namespace burnish::data
