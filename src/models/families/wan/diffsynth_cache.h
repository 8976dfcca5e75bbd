#pragma once
#include "models/families/wan/config.h"
#include "models/model/names.h"

namespace burnish::models::wan {

/// Says where DiffSynth-Studio's caches of clips have the values of a model (facts: its pipelines/wan_video.py).
void add_diffsynth_values(Names& names, const Config& dit);

}  // namespace burnish::models::wan
