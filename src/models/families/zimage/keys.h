#pragma once
#include "io/key_map.h"
#include "models/families/zimage/config.h"
#include "models/model/names.h"

namespace burnish::models::zimage {

/// Returns the rules between the names of ComfyUI's files, which are those of the original code, and ours (diffusers').
io::KeyMap original_keys();

/// Maps other programs' layer names to ours, beside our paths behind a prefix: original ones, plain and with kohya's underscores.
LayerTable foreign_layers(const Config& config);

}  // namespace burnish::models::zimage
