#pragma once
#include <set>

#include "models/families/minimax_h3/config.h"
#include "models/model/names.h"

namespace burnish::models::minimax_h3 {

/// Returns the rules between MiniMax's original names and ours, for files whose query, key and value lie one behind the other: those of
/// ComfyUI (rows.h shows others so).
io::KeyMap original_keys();

/// Returns the layer names of adapters of ComfyUI, ai-toolkit, diffusion-pipe and musubi-tuner.
LayerTable foreign_layers(const Config& config);
/// Returns the foreign layers whose rows stand the second half first.
std::set<std::string> swapped_layers(const Config& config);
/// Returns the names in which adapters are written, by format: ComponentNames::written.
std::map<std::string, LayerTable> written_layers(const Config& config);

/// Returns the names by which adapter targets know a layer: ours, and the original ones.
std::vector<std::string> target_names(const std::string& path);

/// A name that only original files have, and one that only files in our names have.
inline constexpr const char *kOriginalMark = "audio_patch_proj.weight", *kMark = "transformer_blocks.0.adaln_proj.linear.weight";
/// The end of the names of original layers of query, key and value.
inline constexpr const char* kFused = ".attn.qkv_proj.weight";

}  // namespace burnish::models::minimax_h3
