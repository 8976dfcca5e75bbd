#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "loras/layer_strengths.h"
#include "nn/delta_strength.h"

namespace burnish::train {

class Attached;

/// A strength at which the adapters in training are looked at: a number, and factors on it for some of their layers.
struct Strength {
  double whole = 1;
  loras::LayerStrengths layers = {};

  /// Returns what parse_strength reads: "0.5", or "1:attn=0".
  std::string text() const;
};

/// Reads "0.5", "0.5:attn=0" or "attn=0", as loras::parse_lora_file reads what stands behind a file; none where it is neither.
std::optional<Strength> parse_strength(std::string_view text);

/// The adapters of a model act at a strength on this thread for as long as this lives; without factors for layers what else is attached
/// does too.
class AtStrength {
 public:
  /// A config Error for layers that the adapters do not have; `attached` must outlive it.
  AtStrength(const Attached& attached, const Strength& strength);
  ~AtStrength();
  AtStrength(const AtStrength&) = delete;
  AtStrength& operator=(const AtStrength&) = delete;

 private:
  const Attached* attached_;
  bool has_factors_;
  nn::DeltaStrength whole_;
};

}  // namespace burnish::train
