#pragma once
#include "models/model/components.h"
#include "models/model/names.h"
#include "models/text/clip.h"
#include "models/text/gemma.h"
#include "models/text/qwen.h"
#include "models/text/qwen3_vl_vision.h"
#include "models/text/qwen_vision.h"
#include "models/text/t5.h"
#include "models/vae/autoencoder_kl.h"
#include "models/vae/causal_autoencoder.h"
#include "tokenizers/tekken.h"

// Components that families share, as values that a family adds to itself (Model::add): how they are made, what their layers are called.
// Recipes refer to the files and options that they are given, which must outlive them.
namespace burnish::models {

namespace vae {
struct PatchOrder;
}

/// Adds components to a family for parts of it that are apart from its Model: Model::add.
using AddComponent = std::function<void(const Recipe& recipe, const ComponentNames& names)>;

/// Makes the recipe of the transformer "dit". `part_of` makes of a part's name what builds the part; `seed` draws random weights.
template <class Transformer, class Config, class PartOf>
Recipe transformer_recipe(const Source& source, const Config& config, uint64_t seed, const PartOf& part_of) {
  return {.name = "dit",
          .what = "transformer",
          .source = source,
          .build = [config, part_of](const std::string& part,
                                     const at::TensorOptions& o) { return std::make_unique<Transformer>(config, o, part_of(part)); },
          .initialise = [seed](nn::Module& whole) { static_cast<Transformer&>(whole).initialise(seed); }};
}

/// A component as a family adds it: how it is made, and what it and its layers are called.
struct NamedRecipe {
  Recipe recipe;
  ComponentNames names;
};
/// A text encoder with its tokenizer.
using TextPart = NamedRecipe;

/// The facts of a text encoder that its family states.
struct TextUse {
  std::string name = "text_encoder";
  std::string tokenizer = "tokenizer";   ///< folder of its tokenizer beside the model; with "_path" behind it the option that names another
  std::string published = {};            ///< "ID:FOLDER/" where it is published, for files that are named by ids and have none beside
  std::string kohya = "lora_te_";        ///< LayerNames::kohya
  std::string comfyui = {};              ///< LayerNames::comfyui, which stands before its tensors in single files too
  std::vector<std::string> others = {};  ///< LayerNames::others
  int64_t length = 0;                    ///< tokens of a text that the model was trained with; see prompt_length_option
};

/// Makes a CLIP text encoder, which reads one chunk of tokens whatever `length` says.
TextPart clip_part(const Source& source, const text::ClipConfig& config, const TextUse& use, const ModelFiles& files,
                   const ModelOptions& options);

/// Makes a T5 encoder. It reads no more tokens than its tokenizer says, unless the user asks for more.
TextPart t5_part(const Source& source, const text::T5Config& config, const TextUse& use, const ModelFiles& files,
                 const ModelOptions& options);

/// The facts of a Qwen text encoder, or of one of its kin, that its family states.
struct QwenUse {
  TextUse text;
  tokenizers::ChatTemplate chat = {};  ///< what stands around a prompt
  bool drops_before = false;           ///< whether states of the tokens before the prompt are dropped, and not counted in `length`
  int64_t num_read = 0;                ///< layers that the model runs; layers behind them get no gradient
  const char* kind = "Qwen";           ///< what messages call it
  decltype(&tokenizers::load_qwen) load = tokenizers::load_qwen;
  std::string below = "model.";  ///< what stands before its layers in a folder of its own
};
TextPart qwen_part(const Source& source, const text::QwenConfig& config, const QwenUse& use, const ModelFiles& files,
                   const ModelOptions& options);

/// Makes the text part of a Gemma. A file of it alone may carry its vocabulary, as ComfyUI's do.
TextPart gemma_part(const Source& source, const text::GemmaConfig& config, const TextUse& use, const ModelFiles& files,
                    const ModelOptions& options);

/// Makes the vision tower of Qwen2.5-VL or Qwen3-VL, shown pictures by `pixels`. Its layers lie below "visual." in the text encoder's
/// files.
Recipe vision_recipe(const std::string& name, const Source& source, const text::VisionConfig& config, const text::PixelRule& pixels);
Recipe vision_recipe(const std::string& name, const Source& source, const text::Qwen3VlVisionConfig& config, const text::PixelRule& pixels);
ComponentNames vision_names(const std::string& name, const std::string& kohya);
ComponentNames qwen3_vl_vision_names(const std::string& name, const std::string& kohya);

/// The latents that an autoencoder makes of a picture, in the space that the denoiser works in: a normal distribution for each number.
using Moments = vae::Encoder::Moments;

/// Turns frames in [-1, 1] into uint8 of their shape, clamped and rounded.
at::Tensor pixels_of(const at::Tensor& frames);

/// The autoencoder "vae", which computes in fp32 and of which no weight is stored as codes. It runs in tiles where tile_option says so.
struct AutoencoderPart {
  Recipe recipe;
  ComponentNames names;
  int64_t channels = 16;     ///< numbers of a latent
  int64_t downsampling = 8;  ///< pixels to a latent along a side
  /// Run the loaded module: image [B, 3, H, W] in [-1, 1] to latents [B, C, h, w] as the denoiser sees them, and back. Latents
  /// [B, C, F, h, w] of one frame become a picture as well, those of more a clip [B, 3, frames, H, W] of bytes (pixels_of), which takes a
  /// quarter of the memory. Layers are frames of four numbers a pixel, each encoded and decoded by itself.
  std::function<Moments(nn::Module& autoencoder, const at::Tensor& image)> encode;
  std::function<at::Tensor(nn::Module& autoencoder, const at::Tensor& latents)> decode;
};

/// The facts of a KL autoencoder that its family states.
struct KlUse {
  int64_t channels = 16;               ///< numbers of its latents, where the files hold none
  vae::KlLatents latents = {};         ///< what is said of them, where no config.json says it
  std::string single_prefix = "vae.";  ///< what stands before its tensors in single files
  bool shifts = true;                  ///< whether what is said of a shift counts; without it latents are scaled alone
};
AutoencoderPart kl_part(const Source& source, const ModelOptions& options, const KlUse& use = {});
/// Makes a KL autoencoder of latents in patches, in FLUX.2's order or another.
AutoencoderPart patch_part(const Source& source, const ModelOptions& options);
AutoencoderPart patch_part(const Source& source, const ModelOptions& options, const vae::PatchOrder& order);
/// Makes a causal autoencoder, for pictures, for clips or for layers. A data Error where its pixels have other numbers.
AutoencoderPart causal_part(const Source& source, const ModelOptions& options, vae::CausalFor use = vae::CausalFor::pictures);

/// Throws a data Error where the transformer reads other latents than the autoencoder makes; not where one of them is missing.
void check_latents(const Source& transformer, int64_t channels_read, const AutoencoderPart& autoencoder);
/// Throws a data Error where the transformer reads other states than an encoder makes: "texts" of the "text encoder"; not where one of them
/// is missing.
void check_widths(const Source& transformer, const char* what, int64_t width_read, const Source& encoder, const char* name,
                  int64_t width_made);

/// Returns the option vae_tile_size, of families with one of these autoencoders.
Option tile_option();
/// Throws a config Error for a vae_tile_size that is no multiple of four latents: tiles overlap by a quarter of their side.
void check_tile(int64_t size, int64_t pixels_of_latent);
/// Returns the option max_sequence_length: tokens that the text encoder reads of a prompt, 0 for as many as the model was trained with.
Option prompt_length_option();
/// Returns the value of max_sequence_length, or `otherwise` where it is 0.
int64_t prompt_length(const ModelOptions& options, int64_t otherwise);

/// Returns the option embedded_guidance, of families with models that are told a guidance: 1 in training, and this when drawing.
Option embedded_guidance_option(double when_drawing = 1);
/// Returns the option is_distilled, of families whose files may not say that a model was distilled.
Option distilled_option();
/// Throws a config Error where an option is given that the opened model, another of its family's, does not have.
void refuse_given(const ModelOptions& options, const Option& option);

/// Finds the folder of a tokenizer: the chosen one, which may be a folder of a model on a hub ("author/model:tokenizer/"), or the folder of
/// this name beside the model; nothing when there is neither.
std::optional<std::filesystem::path> find_tokenizer(const ModelFiles& files, const std::string& chosen, const std::string& folder);
/// Finds that folder too, or the one that is `published` (TextUse); throws a data Error that names `kind` and the option when there is
/// none. `option` is the one that chooses, without "_path"; null: it is called as the folder.
std::filesystem::path tokenizer_folder(const ModelFiles& files, const std::string& chosen, const std::string& folder, const char* kind,
                                       const char* option = nullptr, const std::string& published = "");

}  // namespace burnish::models
