#pragma once
#include "models/components.h"
#include "models/names.h"
#include "models/text/clip.h"
#include "models/text/qwen.h"
#include "models/text/qwen_vision.h"
#include "models/text/t5.h"
#include "models/vae/autoencoder_kl.h"
#include "models/vae/causal_autoencoder.h"
#include "models/vae/patch_autoencoder.h"

// Components that are the same in every family: how they are made, and what their layers are called.
namespace burnish::models {

/// A CLIP text encoder, without its tokenizer.
Recipe clip_recipe(const std::string& name, const std::string& what, const Source& source, const text::ClipConfig& config);
/// `kohya`: what stands before its layers in kohya's adapter files, "lora_te1_"; `comfyui`: in ComfyUI's, and before its tensors in single
/// files; `others`: LayerNames::others.
ComponentNames clip_names(const std::string& name, const std::string& kohya, const std::string& comfyui,
                          const std::vector<std::string>& others = {});

/// A T5 encoder, without its tokenizer.
Recipe t5_recipe(const std::string& name, const Source& source, const text::T5Config& config);
ComponentNames t5_names(const std::string& name, const std::string& kohya, const std::string& comfyui,
                        const std::vector<std::string>& others = {});

/// A Qwen text encoder, without its tokenizer.
Recipe qwen_recipe(const std::string& name, const Source& source, const text::QwenConfig& config);
/// `num_read`: layers that the model runs; those behind them get no gradient.
ComponentNames qwen_names(const std::string& name, const text::QwenConfig& config, int64_t num_read, const std::string& kohya,
                          const std::string& comfyui);

/// "vae_tile_size" of families with an autoencoder: what its config has as tile_size.
Option tile_option();
/// The vision tower of Qwen2.5-VL, shown pictures by `pixels`. Its layers lie below "visual." in the text encoder's files.
Recipe vision_recipe(const std::string& name, const Source& source, const text::VisionConfig& config, const text::PixelRule& pixels);
ComponentNames vision_names(const std::string& name, const std::string& kohya);

/// A KL autoencoder, which computes in fp32 and of which no weight is stored as codes.
Recipe autoencoder_recipe(const std::string& name, const Source& source, const vae::KlConfig& config);
/// `single_prefix`: what stands before its tensors in single files.
ComponentNames autoencoder_names(const std::string& name, const vae::KlConfig& config, const std::string& single_prefix);

/// An autoencoder of latents in patches, likewise.
Recipe patch_autoencoder_recipe(const std::string& name, const Source& source, const vae::PatchConfig& config);
ComponentNames patch_autoencoder_names(const std::string& name, const vae::PatchConfig& config, const std::string& single_prefix);

/// A causal autoencoder for pictures, likewise.
Recipe causal_autoencoder_recipe(const std::string& name, const Source& source, const vae::CausalConfig& config);
ComponentNames causal_autoencoder_names(const std::string& name, const vae::CausalConfig& config, const std::string& single_prefix);

/// The tensors of an entry below the first of these prefixes under which it has one of this name; nothing where it has none.
std::optional<io::TensorSource> find_below(const ModelEntry& entry, const std::vector<std::string>& prefixes, const std::string& mark);
/// A KL autoencoder in its own files or in a single one.
Source find_autoencoder(const ModelFiles& files);
/// One of latents in patches: that has statistics of them.
Source find_patch_autoencoder(const ModelFiles& files);
Source find_causal_autoencoder(const ModelFiles& files);
/// A T5 encoder in its own files or below one of these prefixes of a single one.
Source find_t5(const ModelFiles& files, const std::vector<std::string>& prefixes);
/// A Qwen text encoder in its own files or below one of these prefixes of a single one. Its first layer's attention has a tensor `mark`:
/// "q_norm.weight" of Qwen3, "q_proj.bias" of Qwen2 and Qwen2.5.
Source find_qwen(const ModelFiles& files, const std::vector<std::string>& prefixes, const std::string& mark);
/// The vision tower of Qwen2.5-VL among the text encoder's files, below one of these prefixes.
Source find_vision_tower(const ModelFiles& files, const std::vector<std::string>& prefixes);

/// A data Error where the transformer reads other latents than the autoencoder makes; nothing where one of them is not there.
void check_latents(const Source& transformer, int64_t channels_read, const Source& autoencoder, int64_t channels_made);
/// The same of what it reads of an encoder: "texts" of the "text encoder".
void check_widths(const Source& transformer, const char* what, int64_t width_read, const Source& encoder, const char* name,
                  int64_t width_made);

/// The option max_sequence_length: tokens that the text encoder reads of a prompt, 0 for as many as the model was trained with.
Option prompt_length_option();
/// Its value, or `otherwise` where that is 0.
int64_t prompt_length(const ModelOptions& options, int64_t otherwise);

/// The folder of a tokenizer: the chosen one, which may be a folder of a model on a hub ("author/model:tokenizer/"), or that of this name
/// beside the model; nothing when there is neither.
std::optional<std::filesystem::path> find_tokenizer(const ModelFiles& files, const std::string& chosen, const std::string& folder);
/// The same; a data Error that names `kind` and the option when there is neither.
std::filesystem::path tokenizer_folder(const ModelFiles& files, const std::string& chosen, const std::string& folder, const char* kind);

}  // namespace burnish::models
