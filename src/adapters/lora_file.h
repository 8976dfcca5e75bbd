#pragma once
#include "adapters/lora.h"
#include "io/checkpoint_files.h"

namespace burnish::adapters {

/// Our layers behind a layer name in a file (fused layers have several, stacked in this order); none when the name means nothing.
using LayersOf = std::function<std::vector<std::string>(const std::string& name)>;

/// Reads a LoRA in any of the common layouts: diffusers/peft (`<prefix>path.lora_A.weight`), DiffSynth-Studio (`.lora_A.default.weight`),
/// kohya and OneTrainer (`lora_unet_path_with_underscores.lora_down.weight`), with or without `.alpha` (then alpha = rank).
/// A LoRA on a fused layer is split by rows: its parts share A. `rows_of` gives the output features of one of our layers.
/// A data Error names keys that are not a LoRA's or that belong to no layer.
std::vector<LoraWeights> read_lora(const std::filesystem::path& path, const LayersOf& layers_of,
                                   const std::function<int64_t(const std::string&)>& rows_of);

/// The LoRAs as diffusers' load_lora_weights and ComfyUI read them: `<prefix>path.lora_A.weight`, `.lora_B.weight`, `.alpha`.
io::NamedTensors lora_tensors(const AdaptedList& adapted, const std::string& prefix, c10::ScalarType dtype);

/// Whether a file looks like a LoRA, by its keys.
bool is_lora(const io::TensorSource& source);

}  // namespace burnish::adapters
