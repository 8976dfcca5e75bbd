#pragma once
#include "io/key_map.h"
#include "models/chroma/config.h"
#include "models/names.h"

namespace burnish::models::chroma {

/// Rules between the names of lodestones' files and ours.
io::KeyMap original_keys();
/// Our layers behind those of adapters in the original names, with and without ComfyUI's and kohya's prefixes.
LayerTable foreign_layers(const Config& config);

}  // namespace burnish::models::chroma
