#pragma once
#include "io/key_map.h"
#include "models/families/krea2/config.h"
#include "models/model/names.h"

namespace burnish::models::krea2 {

/// Returns the rules between the original names, which ComfyUI's files have too, and ours (diffusers').
io::KeyMap original_keys();

/// Maps original layer names to ours, plain and with kohya's underscores.
LayerTable foreign_layers(const Config& config);
/// Returns original names as ComfyUI, kohya's programs and DiffSynth-Studio write them in adapter files.
std::map<std::string, LayerTable> written_layers(const Config& config);
/// Returns the names by which adapter targets know a layer: ours, and the original one, which DiffSynth-Studio's are.
std::vector<std::string> target_names(const std::string& path);

}  // namespace burnish::models::krea2
