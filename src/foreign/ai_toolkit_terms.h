#pragma once
#include "foreign/program.h"

namespace burnish::foreign {

/// The rows of ai-toolkit's keys that hold a model to what it was.
std::vector<SettingRow> ai_toolkit_preservation_rows();
/// The rows of its keys of losses under guidance; a range of scales is a list of two.
std::vector<SettingRow> ai_toolkit_guidance_rows();

/// Tells whether settings are those of a slider of its first kind ("slider"), of several targets and drawn latents, or of any kind.
bool is_ai_toolkit_slider_of_targets(const Settings& all);
bool is_ai_toolkit_slider(const Settings& all);
/// Puts the targets of a slider of the first kind where the other kind has its prompts, or several into `arranged`.
void put_ai_toolkit_targets(Value& process, Arranged& arranged);
/// Puts the two folders of each pair of sets of its slider of pictures in place of `datasets`, each with the strength of its end.
void put_ai_toolkit_pairs(Value& process, std::vector<Dataset>& datasets, Arranged& arranged);
/// The rows of its kinds of runs and of its keys of sliders.
std::vector<SettingRow> ai_toolkit_slider_rows();

}  // namespace burnish::foreign
