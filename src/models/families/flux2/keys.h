#pragma once
#include "io/key_map.h"
#include "models/families/flux2/config.h"
#include "models/model/names.h"

namespace burnish::models::flux2 {

/// Returns the rules between Black Forest Labs' original names, which ComfyUI's files have as well, and ours.
io::KeyMap original_keys();

/// Returns the layer names of adapters of kohya's and musubi-tuner's kind and of ai-toolkit and ComfyUI.
LayerTable foreign_layers(const Config& config);
/// Returns the foreign layers whose rows stand the second half first.
std::set<std::string> swapped_layers();
/// Returns the names in which adapters are written, by format: ComponentNames::written.
std::map<std::string, LayerTable> written_layers(const Config& config);

}  // namespace burnish::models::flux2
