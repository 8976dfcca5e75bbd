#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "captioning/choose_token.h"
#include "captioning/language_model.h"

namespace burnish::captioning {

/// Says how texts are written.
struct WritingRule {
  int64_t max_new_tokens = 128;
  int64_t num_beams = 3;  ///< texts that are searched at once, where a model searches
  TokenRule tokens = {};
  uint64_t seed = 0;
};

/// Holds what was written about a picture.
struct Written {
  std::vector<int64_t> ids;  ///< without the token that ends it
  std::string text;          ///< without blanks around it
  bool is_cut = false;       ///< whether it had no end after max_new_tokens
};

/// Holds what is asked (LanguageModel::ask), and the name of the numbers that are drawn for the answer: it depends on no other text of a
/// batch, up to how a processor adds up.
struct Request {
  models::PictureText text;
  uint64_t name = 0;
};

/// Answers all of these at once: those of equal tokens and sides are read together, and then a token is chosen for each at a time.
/// `goes_on`, asked before each token, ends it: nothing is returned then.
std::optional<std::vector<Written>> write(LanguageModel& model, const std::vector<Request>& requests, const WritingRule& rule,
                                          const std::function<bool()>& goes_on = {});

}  // namespace burnish::captioning
