#include "train/subject/strength.h"

#include <fmt/core.h>

#include "base/number.h"
#include "base/text.h"

namespace burnish::train {

std::string Strength::text() const { return layers.is_given() ? fmt::format("{}:{}", whole, layers.text()) : fmt::format("{}", whole); }

std::optional<Strength> parse_strength(std::string_view text) {
  text = trim(text);
  if (const auto whole = parse_number<double>(text)) return Strength{*whole};
  Strength strength;
  const auto colon = text.find(':');
  const auto whole = colon == text.npos ? std::nullopt : parse_numbers<double>(text.substr(0, colon));
  if (whole && whole->size() != 1) return std::nullopt;  // the end of a list that lacks a semicolon
  if (whole) {
    strength.whole = whole->front();
    text.remove_prefix(colon + 1);
  }
  const auto layers = loras::LayerStrengths::parse(text);
  if (!layers) return std::nullopt;
  strength.layers = *layers;
  return strength;
}

}  // namespace burnish::train
