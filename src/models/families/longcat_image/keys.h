#pragma once
#include <set>

#include "io/key_map.h"
#include "models/families/longcat_image/config.h"
#include "models/model/names.h"

namespace burnish::models::longcat_image {

/// Returns the rules between ComfyUI's names, which are FLUX.1's original ones, and ours (diffusers').
io::KeyMap original_keys();
/// Returns the layer names of ComfyUI and of kohya's kind, and ours with underscores.
LayerTable foreign_layers(const Config& config);
/// Returns the foreign layers whose rows are shift and scale, where ours are scale and shift.
std::set<std::string> swapped_layers();
/// Returns the names of all our layers in adapter files of ComfyUI and of kohya's kind.
std::map<std::string, LayerTable> written_layers(const Config& config);

}  // namespace burnish::models::longcat_image
