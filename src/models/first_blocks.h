#pragma once
#include <functional>
#include <string>
#include <vector>

#include "models/mmdit.h"
#include "pipeline/unit.h"

// Denoisers whose first blocks are split off, for those that are loaded apart (Model::split_first_blocks).
namespace burnish::models {

/// The parts of the denoiser "dit" and the units that run them, where one modulation serves all blocks: `count` blocks before the first
/// that trains are loaded with the modulation, and those behind them by themselves; where there are none to split off, the modulation and
/// the body.
struct FirstBlocks {
  int64_t count = 0;
  const char* what = "blocks";  ///< what keys of caches call them

  static inline const std::string kFirst = "dit.first_blocks", kLast = "dit.last_blocks";
  static inline const std::string kModulation = "dit.modulation", kBody = "dit.body";

  std::vector<std::string> parts() const;
  /// Returns the layers of a part.
  mmdit::Part part_of(const std::string& name) const;
  /// Returns what the result of a part depends on beside its weights, for the key of a cache.
  std::string settings(const std::string& part) const;
  /// Returns the part with the modulation.
  std::string modulation() const;

  /// Computes the modulation, and what a part's blocks make of it and of their reads; where it `goes_on`, "hidden_states" stands in place
  /// of "text_embedding".
  using Modulate = std::function<at::Tensor(pipeline::Scope& scope, const std::string& part)>;
  using Run = std::function<at::Tensor(pipeline::Scope& scope, const std::string& part, bool goes_on)>;
  /// Makes the unit from sigma to "modulation", and those from what the whole body reads to "prediction".
  pipeline::Units units(const std::vector<std::string>& reads, const Modulate& modulate, const Run& run) const;
};

}  // namespace burnish::models
