#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loras/lora_file.h"

namespace burnish::convert {

/// The spelling of names in an adapter file:
/// diffusers   `transformer.<path>.lora_A.weight`: diffusers, burnish
/// peft        a folder with `base_model.model.<path>.lora_A.weight` and adapter_config.json: peft
/// kohya       `lora_unet_<path>.lora_down.weight` in the original names of the model: sd-scripts, ComfyUI, diffusers
/// onetrainer  the same in diffusers' names, for FLUX.1 behind `lora_transformer_`
/// lycoris     `lycoris_<path>.…`: LyCORIS, ComfyUI
/// comfyui     `diffusion_model.<original path>.lora_A.weight`
/// diffsynth   `<path>.lora_A.default.weight` in the names of DiffSynth-Studio
enum class LoraFormat { diffusers, peft, kohya, onetrainer, lycoris, comfyui, diffsynth };
LoraFormat parse_lora_format(std::string_view name);
const std::vector<std::string>& lora_formats();
/// The format in whose names a file's tensors are, told by how these begin and end; nothing where they are of none. OneTrainer's files for
/// UNets begin as kohya's do, and are told as such.
std::optional<LoraFormat> format_of_names(const std::vector<std::string>& names);
/// The programs that read files of a format beside burnish, with commas between: those of plain LoRAs, or of other kinds (DoRA, LoHa,
/// LoKr). A run's last words (train/run/ways_to_load.h) say the same.
std::string_view readers_of(LoraFormat format, bool is_lora);

/// The adapters of one component in the names of a file.
struct Spelled {
  io::NamedTensors tensors = {};
  std::string peft_config = {};  ///< adapter_config.json of LoraFormat::peft
};

/// Factors are those that were read, bit for bit, and so is alpha. Layers that the format has in one are fused: their row factors stand in
/// blocks beside each other, or above each other where the parts share everything else, as those of a fused layer that was split do. Where
/// the readers of a format know no alpha, the scale is multiplied into lora_B, and a factor of 16 bits becomes fp32 unless the scale is a
/// power of two. Without `dtype` tensors have the dtype that they were read in. A config Error for what the readers of the format
/// cannot hold. `vectors` are changes of biases and norms of which `holds_vector` says that the format has them; in fp32 without `dtype`.
Spelled spell(const std::vector<adapters::AdapterWeights>& weights, const std::vector<adapters::AdapterWeights>& vectors,
              const models::Model& model, const std::string& component, LoraFormat format, std::optional<c10::ScalarType> dtype);

/// Tells whether files of a format have a change of a bias or a norm beside these changes of weights: `.diff`, `.diff_b` and the like, or
/// a bias of LoRA's second factor.
bool holds_vector(const adapters::AdapterWeights& vector, const std::vector<adapters::AdapterWeights>& weights, const models::Model& model,
                  const std::string& component, LoraFormat format);

/// Takes the blocks apart that `spell` made of layers that have no common factors; other adapters stay as they are.
void split_blocks(std::vector<adapters::AdapterWeights>& weights);

}  // namespace burnish::convert
