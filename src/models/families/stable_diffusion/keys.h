#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/key_map.h"
#include "models/families/stable_diffusion/config.h"

namespace burnish::models::stable_diffusion {

/// Returns the rules between latent diffusion's names of a UNet's tensors (`input_blocks.4.1.…`, below `model.diffusion_model.`) and ours
/// (diffusers'). `config` matters by the depths of its levels alone.
io::KeyMap ldm_keys(const Config& config);

/// A component within the tensors of some file: its tensors without their prefix, and the rules from their names to ours.
struct ComponentTensors {
  io::TensorSource tensors;
  io::KeyMap keys;
  io::Shapes shapes() const { return io::shapes_in_our_names(tensors, keys); }
};

/// Finds components of a file, of whole checkpoints (`model.diffusion_model.`, `conditioner.embedders.0.`, `cond_stage_model.`,
/// `first_stage_model.`; ComfyUI's prefixes) and of files of one component in diffusers' or the authors' names alike; nothing where the
/// file has no such component.
std::optional<ComponentTensors> unet_part(const io::TensorSource& file);
std::optional<ComponentTensors> vae_part(const io::TensorSource& file);
/// Finds the first text encoder: CLIP-L, without the projection of its pooled embedding.
std::optional<ComponentTensors> text_encoder_part(const io::TensorSource& file);
/// Finds SDXL's second text encoder: OpenCLIP bigG with its projection. A file of one text encoder alone is this one when it has OpenCLIP's
/// names, or a projection and a width other than CLIP-L's 768.
std::optional<ComponentTensors> text_encoder_2_part(const io::TensorSource& file);

/// Layer names that other programs use, each with our layer paths.
using Layers = std::map<std::string, std::vector<std::string>>;

/// Maps layer names of the UNet to ours: latent diffusion's and ours, plain, behind `unet.` (diffusers), as `lora_unet_…` with underscores
/// (kohya: SDXL in latent diffusion's names, SD 1.5 in diffusers'; OneTrainer), as `….processor.to_q_lora` (diffusers before it had peft).
Layers foreign_unet_layers(const Config& config);

/// Returns the UNet's layer names that adapter files are written in (models::ComponentNames::written): ComfyUI's, and for SDXL kohya's.
std::map<std::string, Layers> written_unet_layers(const Config& config);

/// Maps names of the layers of a text encoder with this many layers to ours: kohya's and OneTrainer's `lora_te1_text_model_…`, diffusers'
/// `text_encoder.text_model.…`, ComfyUI's `text_encoders.clip_l.transformer.…`; `second` for `lora_te2_`, `text_encoder_2.` and `clip_g`.
/// The first also goes by `lora_te_`, as with SD 1.5.
Layers foreign_text_layers(int64_t num_layers, bool second);

}  // namespace burnish::models::stable_diffusion
