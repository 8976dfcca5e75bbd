#pragma once
#include <set>

#include "io/key_map.h"
#include "models/families/sd3/config.h"
#include "models/model/names.h"

namespace burnish::models::sd3 {

/// Returns the rules between the names of Stability AI's files (and ComfyUI's), of a transformer with so many blocks, and ours.
io::KeyMap original_keys(int64_t num_layers);
/// Returns the layer names of ComfyUI and kohya's sd-scripts.
LayerTable foreign_layers(const Config& config);
/// Returns the names of all our layers in adapter files of these.
std::map<std::string, LayerTable> written_layers(const Config& config);
/// Returns the foreign layers whose rows are shift and scale, where ours are scale and shift.
std::set<std::string> swapped_layers(const Config& config);

}  // namespace burnish::models::sd3
