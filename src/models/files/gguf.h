#pragma once
#include "models/files/coding.h"

// Weights in GGUF files, as ComfyUI-GGUF, stable-diffusion.cpp and llama.cpp write them.
namespace burnish::models {

/// Finds weights in blocks. ComfyUI-GGUF keeps the shape of one whose rows are no whole blocks in `comfy.gguf.orig_shape.<name>`.
std::optional<CodedWeight> find_blocks(const MarkedFiles& files, const std::string& name);

/// Returns the tensors of a text encoder under the names of transformers, where they have those of llama.cpp, and numbers in the shape that
/// the metadata keep of them; other tensors as they are.
io::TensorSource in_known_names(const io::TensorSource& tensors);

}  // namespace burnish::models
