#pragma once
#include "io/key_map.h"
#include "models/families/chroma/config.h"
#include "models/model/names.h"

namespace burnish::models::chroma {

/// Returns the rules between the names of lodestones' files and ours.
io::KeyMap original_keys();
/// Returns the layer names of kohya's sd-scripts, ComfyUI and OneTrainer.
LayerTable foreign_layers(const Config& config);
/// Returns the names of all our layers in adapter files of kohya's sd-scripts and ComfyUI.
std::map<std::string, LayerTable> written_layers(const Config& config);

}  // namespace burnish::models::chroma
