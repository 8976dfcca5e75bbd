#pragma once
#include <string>
#include <vector>

#include "foreign/program.h"

namespace burnish::foreign {

/// A line of a file of prompts, with the flags that `sample` has: null for what is not known.
struct PromptLine {
  std::string prompt;
  Value width = nullptr, height = nullptr, frames = nullptr, seed = nullptr, steps = nullptr, guidance = nullptr, negative = nullptr;
  std::vector<std::string> references = {};  ///< files of reference pictures
  std::vector<std::string> others = {};      ///< flags that previews do not have
};

/// Values that a program takes where a prompt does not say.
struct PromptDefaults {
  int64_t side, steps;
  double guidance;            ///< 0: the model's own
  int64_t multiple;           ///< sides are rounded down to it
  int64_t least = 64;         ///< sides are at least this
  int64_t frames_before = 0;  ///< frames that it draws before those that a prompt asks for
};

// Of library/train_util.py and flux_train_utils.py of sd-scripts, and of hv_train_network.py of musubi-tuner.
inline constexpr PromptDefaults kPromptsOfUnets{512, 30, 7.5, 8};
inline constexpr PromptDefaults kPromptsOfFlows{512, 20, 1, 16};
inline constexpr PromptDefaults kPromptsOfMusubi{256, 20, 0, 16};

/// Reads a prompt with flags behind it (--w --h --f --d --s --l --n --ci), as sd-scripts, musubi-tuner and ai-toolkit have them.
PromptLine read_prompt_line(const std::string& text);

/// Writes prompts into `arranged`, a line each, and tells what of them is not carried. Sides are rounded down to the multiple, and at
/// least `least`. What reads as a flag in a prompt whose program has none is set apart.
void put_lines(const std::vector<PromptLine>& lines, Arranged& arranged, int64_t multiple = 16, int64_t least = 16);

/// Reads what `sample_prompts` names, a file of lines, a TOML or a JSON file as sd-scripts has them, or holds as its text, or SD-Trainer's
/// `positive_prompts`. A file that is not there stays as it is named.
void put_sample_prompts(Arranged& arranged, const Open& open, const PromptDefaults& defaults);

/// The row of `sample_prompts`, whose text is empty where its prompts are in a file beside the settings.
SettingRow prompts_row();

}  // namespace burnish::foreign
