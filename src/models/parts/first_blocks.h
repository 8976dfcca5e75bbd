#pragma once
#include <functional>
#include <string>
#include <vector>

#include "models/blocks/mmdit.h"
#include "models/model/components.h"
#include "pipeline/unit.h"

// Denoisers whose first blocks are split off, for those that are loaded apart (Model::split_first_blocks).
namespace burnish::models {

/// Blocks of a kind: the path before their numbers, and how many there are.
struct BlockStack {
  std::string path;
  int64_t count = 0;
};
/// Says where the blocks of a transformer lie.
struct BlockLayout {
  std::vector<BlockStack> stacks = {};   ///< in order of execution
  std::vector<std::string> behind = {};  ///< paths of the layers that come after all blocks
  int64_t num_inseparable = 0;           ///< blocks at the beginning that are split off all together, or none of them
};
/// Makes the stacks where blocks of two streams come first, then those of one.
std::vector<BlockStack> double_then_single(int64_t num_double, int64_t num_single);
/// Counts the blocks that run before the first with a parameter that trains: 0 where a parameter trains that comes before all blocks, and
/// all of them where none trains but behind them.
int64_t blocks_before_training(nn::Module& transformer, const Trains& trains, const BlockLayout& layout);

/// The parts of the denoiser "dit" and the units that run them: `count` blocks before the first that trains are loaded with what stands
/// before all blocks, and those behind them by themselves; where there are none to split off, the modulation and the body.
struct FirstBlocks {
  int64_t count = 0;
  const char* what = "blocks";  ///< what keys of caches call them
  bool has_text = false;        ///< whether layers that make "text_tokens" of a text are a part of their own
  /// Tells whether every block has a modulation of its own, made of a value "conditioning", and not all the same one: each of the two
  /// halves then has a part with its modulation.
  bool modulates_each = false;

  static inline const std::string kFirst = "dit.first_blocks", kLast = "dit.last_blocks";
  static inline const std::string kModulation = "dit.modulation", kText = "dit.text", kBody = "dit.body";

  std::vector<std::string> parts() const;
  /// Returns the layers of a part.
  mmdit::HeldLayers layers_of(const std::string& part) const;
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

}  // namespace burnish::models
