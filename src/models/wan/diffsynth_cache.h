#pragma once
#include "models/names.h"
#include "models/wan/config.h"

namespace burnish::models::wan {

/// Says where DiffSynth-Studio's caches of clips have the values of a model (facts: its pipelines/wan_video.py). `can_control`: whether the
/// transformer has channels for a clip that controls, which its caches keep with those of the first frame.
void add_diffsynth_values(Names& names, const Config& dit, bool can_control);

}  // namespace burnish::models::wan
