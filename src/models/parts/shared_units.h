#pragma once
#include <functional>
#include <string>

#include "diffusion/process.h"
#include "models/model/latent_space.h"
#include "models/parts/shared_components.h"
#include "pipeline/unit.h"

// Units that all families have.
namespace burnish::models {

/// Encodes pictures [B, 3, H, W] in [-1, 1] as latents.
using Encode = std::function<Moments(const at::Tensor& image)>;
/// Makes an Encode by what is loaded of an autoencoder, on `device`.
Encode encoding_by(const AutoencoderPart& autoencoder, Components& components, c10::Device device);

/// Makes the units from `image` to `latents`. For `kind` "mean" the latents are the mean, and nothing else is kept. For "sample"
/// `encode_image` writes latents_mean and latents_logvar, and a unit of its own draws from them with the run's latent_noise: mean +
/// exp(logvar / 2) · latent_noise. `encode` runs the model `vae` on image [B, 3, H, W] in [-1, 1].
pipeline::Units latent_units(const std::string& kind, const std::string& vae, Encode encode);

/// Makes the unit from `reference_images` to `latents_of_references`: lists of the means [C, h, w], picture by picture.
pipeline::Units reference_picture_units(const std::string& vae, Encode encode);

/// Returns the one picture [3, H, W] of a sample in a column; a data Error where there are more.
const at::Tensor& picture_of(pipeline::Scope& scope, const std::string& column);
/// Returns [H, W]: 1 where a mask [3, H, W] is white, elsewhere 0.
at::Tensor white_of(const at::Tensor& mask_3HW);
/// Returns every n-th row and column from `first` on.
at::Tensor every_nth(const at::Tensor& x_HW, int64_t first, int64_t n);
/// Stacks the tensors at each place of lists that are equally long, with equal sizes there, into a batch: [B, ...].
std::vector<at::Tensor> stack_lists(const pipeline::TensorLists& lists);

/// Returns a text's tokens as a batch of one [1, L], int64.
at::Tensor as_batch(const std::vector<int64_t>& ids, c10::Device device);
/// Returns how many tokens of a text an encoder reads that was checked or loaded, special ones counted.
int64_t token_limit(const Components& components, const std::string& encoder);

/// Returns the ids of a text within the conversation of an encoder's tokenizer, a ChatTokenizer. One that is too long is cut before what
/// ends the conversation, which is always read. Of a model that is only named no text is known: there are as many ids as may be.
std::vector<int64_t> ids_in_chat(const Components& components, const std::string& encoder, const tokenizers::ChatTemplate& chat,
                                 const std::string& text);

/// Does the work of the unit from `prompt` to text_embedding [1, L, width] and text_mask [1, L], ones, with a Qwen text encoder named
/// "text_encoder": it takes the states after `layer` layers of as many tokens as the encoder reads, without those of the first
/// `num_dropped`. A text of no tokens has one state of
/// zeros; that of a model that is only named is as long as may be.
void encode_by_qwen(pipeline::Scope& scope, Components& components, c10::Device device, int64_t layer, int64_t num_dropped = 0);

/// Writes states [1, L, width] of a text as text_embedding and text_mask.
void write_text(pipeline::Scope& scope, const at::Tensor& states_1LD);

/// Makes a unit for each stream from latents, noise and the process's time to noisy and target. `process` must outlive the units.
pipeline::Units noise_units(const diffusion::Process& process, const std::vector<LatentSpace::Stream>& streams);

/// Makes the unit from latents to image. `decode` runs the model `vae` on latents as the denoiser sees them (AutoencoderPart).
pipeline::Units decode_units(const std::string& vae, std::function<at::Tensor(const at::Tensor& latents)> decode);

/// The numbers of tokens that texts have for a text encoder.
struct TokenCount {
  std::string encoder;
  int64_t limit = 0;             ///< tokens that the encoder reads of a text
  int64_t longest = 0;           ///< tokens of the longest text
  int64_t num_cut = 0;           ///< texts that have more tokens than it reads
  const char* option = nullptr;  ///< the option that sets the limit; null: none does
};

/// Counts tokens for every text encoder that the units run; encoders that the model does not have are left out.
std::vector<TokenCount> count_tokens(Components& components, const pipeline::Units& units, const std::vector<std::string>& texts);

/// Warns, in a line for every text encoder that the units run, how many of these texts it cuts, at how many tokens, and how long the
/// longest is. `what` names the texts: "captions".
void warn_of_cut_texts(Components& components, const pipeline::Units& units, const std::vector<std::string>& texts, const char* what);

}  // namespace burnish::models
