#pragma once
#include "models/parts/layer_tables.h"

// What files of several families call the layers of blocks of two streams and of one: the names of Black Forest Labs, with ours.
namespace burnish::models {

/// Layers behind "double_blocks.N." and "transformer_blocks.N."; and behind "single_blocks.N." and "single_transformer_blocks.N.".
extern const RenamedLayers kDoubleBlockLayers, kSingleBlockLayers;
/// Weights of norms, as whole names with {} for a block's number.
extern const RenamedLayers kBlockNorms;

/// The layers outside of the blocks that all of them have. And those that modulate a block, where each has its own, behind the same paths.
extern const RenamedLayers kOuterLayers, kDoubleModulation, kSingleModulation;
/// The layer that modulates the last norm, ours is norm_out.linear: shift stands before scale in it, and behind scale in ours.
inline constexpr const char *kLastNorm = "final_layer.adaLN_modulation.1", *kLastNormOfKohya = "lora_unet_final_layer_adaLN_modulation_1";

/// Adds layers of all double blocks, and of all single ones, in these names.
void add_original_blocks(RenamedLayers& all, const RenamedLayers& of_double, const RenamedLayers& of_single, int64_t num_double,
                         int64_t num_single);

// Transformers whose every block has a modulation; `embedders` are the layers that embed what it is made of.
/// Returns the rules between files in original names and ours.
io::KeyMap modulated_keys(const RenamedLayers& embedders);
/// Returns all layers but the one that modulates the last norm.
RenamedLayers modulated_layers(const RenamedLayers& embedders, int64_t num_double, int64_t num_single);
/// Returns what adapters are written in (ComponentNames::written), all layers among it.
std::map<std::string, LayerTable> written_modulated(const RenamedLayers& layers);

}  // namespace burnish::models
