#pragma once
#include "io/key_map.h"
#include "models/families/qwen_image_21/config.h"
#include "models/model/names.h"

namespace burnish::models::qwen_image_21 {

/// Returns the rules between the names of ComfyUI's files, in which two layers of every MLP are one, and ours (diffusers').
io::KeyMap comfyui_keys();

/// Maps the layers of adapters that were trained in ComfyUI's names to ours, plain and with kohya's underscores.
LayerTable foreign_layers(const Config& config);

}  // namespace burnish::models::qwen_image_21
