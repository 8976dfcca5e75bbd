#pragma once
#include "io/key_map.h"
#include "models/families/longcat_video/config.h"
#include "models/model/names.h"

namespace burnish::models::longcat_video {

/// Returns the rules between the makers' names, which DiffSynth-Studio and SimpleTuner keep, and ours: layers of attention are fused there.
io::KeyMap fused_keys();
/// Returns those between the names of ComfyUI-WanVideoWrapper's files, which are Wan's, and ours.
io::KeyMap wrapper_keys();
/// Returns the names of layers in adapter files of both kinds.
LayerTable foreign_layers(const Config& config);
/// Returns the names of all our layers in adapter files: the makers' but in ComfyUI's.
std::map<std::string, LayerTable> written_layers(const Config& config);
/// Returns the names by which --lora_target_modules knows a layer: its path, and the makers'.
std::vector<std::string> target_names(const std::string& path);

}  // namespace burnish::models::longcat_video
