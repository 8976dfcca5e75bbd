#pragma once
#include <string>

#include "captioning/write.h"

namespace burnish::captioning {

/// Holds what a caption is to be.
struct CaptionRule {
  bool is_tags = false;      ///< tags with commas between, not sentences
  std::string prompt = {};   ///< what is asked; "": the model's prompt for sentences or tags
  std::string trigger = {};  ///< a word that every caption begins with, or holds, and that the prompt tells of
  bool is_added = false;     ///< whether it goes behind the caption that is there, and does not replace it
};

/// Returns what is asked about a picture or a clip, by the rule or else by what the model is asked by itself.
std::string prompt_of(const CaptionRule& rule, bool is_clip, const Prompts& prompts);

/// Returns what is asked about where things lie in a picture: around what these words name, "" for all that is seen.
std::string prompt_for_boxes(const std::string& around);

/// Makes a caption, in one line, of what was written: of tags each once; of what was cut where it had no end, without its last sentence or
/// tag where others stand before it. `before` is the caption that is there, "" for none.
std::string caption_of(const CaptionRule& rule, const Written& written, const std::string& before);

}  // namespace burnish::captioning
