#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "loras/layer_strengths.h"

namespace burnish::train {

/// A strength at which the adapters in training are looked at: a number, and factors on it for some of their layers.
struct Strength {
  double whole = 1;
  loras::LayerStrengths layers = {};

  /// Returns what parse_strength reads: "0.5", or "1:attn=0".
  std::string text() const;
};

/// Reads "0.5", "0.5:attn=0" or "attn=0", as loras::parse_lora_file reads what stands behind a file; none where it is neither.
std::optional<Strength> parse_strength(std::string_view text);

}  // namespace burnish::train
