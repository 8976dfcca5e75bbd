#pragma once
#include "models/parts/find_components.h"

namespace burnish::models::ltx2 {

/// Finds the autoencoder of frames, in a file of its own or below "vae." of another, by diffusers' names or the original ones, without what
/// no code runs. Where its halves lie in two files, both are read as one; where the files hold one half alone, it is that. LTX-2.5's
/// decoder by diffusion is passed over, with a warning unless another file has one of convolutions.
Source find_autoencoder(const ModelFiles& files);

/// Returns the rules between original names and ours, which are diffusers': there levels and the steps between them are counted in one row.
io::KeyMap original_autoencoder_keys(size_t num_encoder_levels, size_t num_decoder_levels);

}  // namespace burnish::models::ltx2
