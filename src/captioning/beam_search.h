#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "captioning/bart.h"

namespace burnish::captioning {

/// Says how texts are searched for. Defaults are those published with Florence-2.
struct BeamRule {
  int64_t num_beams = 3;         ///< texts that are gone on with at once; 1 takes the likeliest token, always
  int64_t max_new_tokens = 200;  ///< the one that ends a text, and the first one, counted too
  int64_t no_repeat = 3;         ///< so many tokens in a row stand once in a text; 0: any may again
  int64_t start = 2;             ///< the token before all that are written
  int64_t first = 0;             ///< the first token that is written
  int64_t end = 2;               ///< the token that ends a text
};

/// A text as it was found.
struct FoundText {
  std::vector<int64_t> ids;  ///< without tokens that begin and end it
  bool is_cut = false;       ///< whether it was ended where it had become too long
};

/// Finds a likely text about each input: the best by the mean of its tokens' log-probabilities of the first `num_beams` that have an end,
/// as transformers' generate does with early_stopping. `states` [B, L, E] is what the encoder made of inputs. What is found of one does not
/// depend on the others. `goes_on`, asked before each token, ends it: nothing is returned then.
std::optional<std::vector<FoundText>> beam_search(Bart& bart, const at::Tensor& states_BLE, const BeamRule& rule,
                                                  const std::function<bool()>& goes_on = {});

}  // namespace burnish::captioning
