#pragma once
#include "io/key_map.h"
#include "models/families/anima/config.h"
#include "models/model/names.h"

namespace burnish::models::anima {

/// Returns the rules between the names of Cosmos, which ComfyUI's files have too, and ours (diffusers'). The conditioner has one set of
/// names in all files.
io::KeyMap original_keys();

/// Maps original layer names to ours, plain and with kohya's underscores.
LayerTable foreign_layers(const Config& config);
/// Returns original names as ComfyUI, kohya's programs and DiffSynth-Studio write them in adapter files.
std::map<std::string, LayerTable> written_layers(const Config& config);
/// Returns the names by which adapter targets know a layer: ours, and the original one, which DiffSynth-Studio's are.
std::vector<std::string> target_names(const std::string& path);

}  // namespace burnish::models::anima
