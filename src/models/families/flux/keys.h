#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/key_map.h"
#include "models/families/flux/config.h"
#include "models/model/names.h"

namespace burnish::models::flux {

/// Returns the rules between Black Forest Labs' tensor names (FLUX.1's single files, ComfyUI) and ours (diffusers').
io::KeyMap bfl_keys();

/// Maps every layer name that other programs use to our layers (fused layers to several, stacked in this order): BFL's, kohya's
/// (`lora_unet_…` with underscores), OneTrainer's (`lora_transformer_…`), XLabs' (`….processor.qkv_lora1`) and
/// DiffSynth-Studio's.
LayerTable foreign_layers(const Config& config);

/// Returns the layer names that adapter files are written in (models::ComponentNames::written): ComfyUI's, sd-scripts'
/// (networks/lora_flux.py) and DiffSynth-Studio's (models/flux_dit.py).
std::map<std::string, LayerTable> written_layers(const Config& config);

/// Returns the foreign layers whose rows are shift and scale, where ours are scale and shift.
std::set<std::string> swapped_layers();

/// Returns the names by which LoRA targets know one of our layers: DiffSynth-Studio's and our path. The last layer, our `proj_out`, goes by
/// DiffSynth-Studio's `final_proj_out` alone, because its path is also the end of the single blocks' `proj_out`.
std::vector<std::string> target_names(const std::string& path);

}  // namespace burnish::models::flux
