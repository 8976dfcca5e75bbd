#pragma once
#include "io/key_map.h"
#include "models/families/wan/animate_config.h"
#include "models/families/wan/vace_config.h"
#include "models/model/names.h"

namespace burnish::models::wan {

/// Returns the rules between the names of Wan's own files, which ComfyUI keeps, and ours.
io::KeyMap original_keys();
/// Returns those of a driven transformer (DrivingConfig), whose blocks stand a segment lower.
io::KeyMap original_driven_keys();
/// Returns the rules between the names that diffusers gives such a transformer, and ours.
io::KeyMap diffusers_driven_keys();
/// Returns those of Wan-Animate's module, whose faces are halved so often.
io::KeyMap animate_keys(int64_t num_halvings);
/// Returns what ai-toolkit puts before the layers of an expert in a file for both.
inline std::string in_both_of(bool is_second) { return is_second ? "transformer_2." : "transformer_1."; }
/// Returns the names of layers and norms in files of ComfyUI, musubi-tuner, DiffSynth-Studio, diffusion-pipe and ai-toolkit, which puts
/// `in_both` before them in a file for both experts.
LayerTable foreign_layers(const Config& config, const std::string& in_both);
LayerTable foreign_layers(const VaceConfig& config, const std::string& in_both);
LayerTable foreign_layers(const AnimateConfig& config, const std::string& in_both);
/// Returns the names of all our layers in adapter files of ComfyUI, kohya's musubi-tuner and DiffSynth-Studio, and of norms in ComfyUI's;
/// of a driven transformer in diffusers' too.
std::map<std::string, LayerTable> written_layers(const Config& config);
std::map<std::string, LayerTable> written_layers(const VaceConfig& config);
std::map<std::string, LayerTable> written_layers(const AnimateConfig& config);
/// Returns the paths of the transformer's layers that stay parameters, as ComponentNames::high_precision has them.
std::vector<std::string> high_precision_layers(const Config& config);
/// Returns the names by which --lora_target_modules knows a layer: its path, and the original one, of which DiffSynth-Studio's commands
/// have the ends "q" and "ffn.0".
std::vector<std::string> target_names(const std::string& path);
/// Returns the names of a driven transformer's path: ours, the original one and diffusers'.
std::vector<std::string> driven_target_names(const std::string& path);

}  // namespace burnish::models::wan
