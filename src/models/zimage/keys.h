#pragma once
#include "io/key_map.h"
#include "models/names.h"
#include "models/zimage/config.h"

namespace burnish::models::zimage {

/// Rules between the names of ComfyUI's files, which are those of the original code, and ours (diffusers').
io::KeyMap original_keys();

/// Layer names of other programs, beside our paths behind a prefix: original ones, plain and with underscores as in kohya's files.
LayerTable foreign_layers(const Config& config);

}  // namespace burnish::models::zimage
