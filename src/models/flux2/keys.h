#pragma once
#include "io/key_map.h"
#include "models/flux2/config.h"
#include "models/names.h"

namespace burnish::models::flux2 {

/// Rules between the original names of Black Forest Labs, which ComfyUI's files have as well, and ours.
io::KeyMap original_keys();

/// Layer names of adapters of kohya's and musubi-tuner's kind and of ai-toolkit and ComfyUI.
LayerTable foreign_layers(const Config& config);
/// Those whose rows stand the second half first.
std::set<std::string> swapped_layers();
/// The names in which adapters are written, by format: ComponentNames::written.
std::map<std::string, LayerTable> written_layers(const Config& config);

}  // namespace burnish::models::flux2
