#pragma once
#include <functional>
#include <string>
#include <vector>

#include "models/blocks/mmdit.h"
#include "models/parts/shared_components.h"
#include "pipeline/unit.h"

// Denoisers whose first blocks are split off, for those that are loaded apart (Model::split_first_blocks).
namespace burnish::models {

/// The parts of the denoiser "dit" and the units that run them: `count` blocks before the first that trains are loaded with what stands
/// before all blocks, and those behind them by themselves; where there are none to split off, the modulation and the body.
struct FirstBlocks {
  int64_t count = 0;
  const char* what = "blocks";  ///< what keys of caches call them
  bool has_text = false;        ///< whether layers that make "text_tokens" of a text are a part of their own
  /// Whether every block has a modulation of its own, made of a value "conditioning", and not all the same one: each of the two halves then
  /// has a part with its modulation.
  bool modulates_each = false;

  static inline const std::string kFirst = "dit.first_blocks", kLast = "dit.last_blocks";
  static inline const std::string kModulation = "dit.modulation", kText = "dit.text", kBody = "dit.body";

  std::vector<std::string> parts() const;
  /// Returns the layers of a part.
  mmdit::HeldLayers part_of(const std::string& name) const;
  /// Returns what the result of a part depends on beside its weights, for the key of a cache.
  std::string settings(const std::string& part) const;
  /// Returns the part with the modulation, that of the first blocks where they are split off.
  std::string modulation() const;
  /// Returns the part with the layers of a text.
  std::string text() const;
  /// Returns the name of the value with the modulation that blocks read; they are the last ones where a part `goes_on`.
  std::string modulation_value(bool goes_on) const;

  /// Splits off so many blocks of the denoiser, and returns the part with them; "" for none.
  std::string split(Components& components, int64_t num_first);

  /// Computes the modulation of a part. Where `modulates_each`, that of the first blocks writes "conditioning" too, and that of the last
  /// ones is made of it.
  using Modulate = std::function<at::Tensor(pipeline::Scope& scope, const std::string& part)>;
  /// Computes what a part's blocks make of the modulation and of their reads; where it `goes_on`, they begin with "hidden_states".
  using Run = std::function<at::Tensor(pipeline::Scope& scope, const std::string& part, bool goes_on)>;
  /// Makes the units from `times` to the modulation, and those from what the whole body reads, "modulation" among it, to "prediction".
  /// Blocks that go on read "hidden_states" in place of the text that comes before all blocks, or beside their reads where none does.
  pipeline::Units units(const std::vector<std::string>& reads, const Modulate& modulate, const Run& run,
                        const std::vector<std::string>& times = {"sigma"}) const;

 private:
  pipeline::Units modulation_units(const Modulate& modulate, const std::vector<std::string>& times) const;
};

/// Makes the recipe of the transformer "dit" of a family whose first blocks can be split off. `blocks` must outlive it.
template <class Transformer, class Config>
Recipe split_transformer_recipe(const Source& source, const Config& config, uint64_t seed, const FirstBlocks& blocks) {
  auto recipe = transformer_recipe<Transformer>(source, config, seed, [&blocks](const std::string& part) { return blocks.part_of(part); });
  recipe.parts = blocks.parts();
  recipe.settings = [&blocks](const std::string& part) { return blocks.settings(part); };
  return recipe;
}

}  // namespace burnish::models
