#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "base/random_key.h"

namespace burnish::captioning {

// Shape letters: B texts, V tokens of the vocabulary.

/// Says how the next token of a text is chosen. Defaults are those published with Qwen2.5-VL, which always take the likeliest token.
struct TokenRule {
  /// The number by which the scores of tokens that a text has are divided where they are above 0, and multiplied below (Keskar et al. 2019,
  /// arXiv 1909.05858); 1 leaves them.
  double repetition_penalty = 1.05;
  double temperature = 0;  ///< what scores are divided by before a token is drawn; 0 takes the likeliest
  int64_t top_k = 0;       ///< draws one of so many likeliest tokens; 0: of all
  double top_p = 1;  ///< draws one of the likeliest tokens that have this probability together (Holtzman et al. 2020, arXiv 1904.09751)
};

/// Scores [B, V] after the penalty; `is_written` [B, V] tells which tokens a text has.
at::Tensor penalised(const at::Tensor& scores_BV, const at::Tensor& is_written_BV, double penalty);

/// Chooses a token for each text by its penalised scores [B, V] fp32. Where tokens are drawn, each text draws the next number of its own
/// sequence.
std::vector<int64_t> choose_tokens(const at::Tensor& scores_BV, const TokenRule& rule, std::vector<CounterRandom>& random);

}  // namespace burnish::captioning
