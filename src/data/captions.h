#pragma once
#include <string>
#include <vector>

#include "base/random_key.h"

namespace burnish::data {

/// A caption of a picture, and how often it is drawn beside the others.
struct Caption {
  std::string text;
  double weight = 1;
};
using Captions = std::vector<Caption>;

/// The rule by which a caption is made of a picture's captions at a visit. Names and order are those of sd-scripts (library/train_util.py,
/// process_caption): prefix and suffix, dropout, alternatives, then tags, then the secondary separator.
struct CaptionRule {
  std::string prefix = {}, suffix = {};  ///< with a blank between them and the caption
  double dropout = 0;                    ///< share of visits under the empty caption
  bool wildcards = false;                ///< draws one of the captions, and one of a, b and c where it says {a|b|c}; {{ and }} are braces
  bool shuffle = false;                  ///< the order of the tags that are not kept
  double tag_dropout = 0;                ///< share of those tags that are left out
  int64_t keep_tokens = 0;               ///< tags at the start that keep their place
  std::string keep_separator = {};       ///< where a caption has it, what stands before it is kept, and behind a second one; it goes
  std::string separator = ",";           ///< between tags
  std::string secondary_separator = {};  ///< what it joins is one tag while tags are shuffled; the separator takes its place then

  /// Tells whether the text of a caption that is not dropped may differ between the visits of a picture.
  bool varies() const { return wildcards || shuffle || tag_dropout > 0; }
};

/// Throws a config Error for numbers out of range and an empty separator.
void check(const CaptionRule& rule);

/// The caption where none is drawn: the first one, with the first of alternatives, and all tags in their order.
std::string plain_caption(const CaptionRule& rule, const Captions& captions);

/// The caption of a visit that does not drop it; `random` is the visit's.
std::string draw_caption(const CaptionRule& rule, const Captions& captions, CounterRandom& random);

/// A caption that was made or drawn, with the trigger word of its dataset, as ai-toolkit has it (toolkit/prompt_utils.py): the word takes
/// the place of [trigger] and [name], and stands before a caption that does not hold it. "" changes nothing.
std::string with_trigger_word(const std::string& trigger_word, std::string caption);

/// The caption with `other` in place of a word, wherever it stands as a whole: letters, digits, underscores and bytes beyond ASCII around
/// it make it part of another one. An empty word is nowhere.
std::string with_other_word(const std::string& caption, const std::string& word, const std::string& other);

}  // namespace burnish::data
