#pragma once
#include "models/families/flux3/config.h"
#include "models/model/names.h"

namespace burnish::models::flux3 {

/// Returns the rules between Black Forest Labs' original names, which ComfyUI's files have as well, and ours.
io::KeyMap original_keys();

/// Returns the layer names of adapters of kohya's kind, of ai-toolkit and of ComfyUI.
LayerTable foreign_layers(const Config& config);
/// Returns the foreign layers whose rows stand the second half first.
std::set<std::string> swapped_layers();
/// Returns the names in which adapters are written, by format: ComponentNames::written.
std::map<std::string, LayerTable> written_layers(const Config& config);

/// Returns the names by which adapter targets know a layer: ours, and DiffSynth-Studio's, which are the original ones.
std::vector<std::string> target_names(const std::string& path);

}  // namespace burnish::models::flux3
