#pragma once
#include <functional>
#include <string>

#include "diffusion/process.h"
#include "models/latent_space.h"
#include "models/shared_components.h"
#include "pipeline/unit.h"

// Units that are the same in every family.
namespace burnish::models {

/// How pictures [B, 3, H, W] in [-1, 1] become latents.
using Encode = std::function<Moments(const at::Tensor& image)>;
/// Encodes by what is loaded of an autoencoder, on `device`.
Encode encoding_by(const AutoencoderPart& autoencoder, Components& components, c10::Device device);

/// The units from `image` to `latents`. `kind` "mean": the latents are the mean, and nothing else is kept.
/// "sample": `encode_image` writes latents_mean and latents_logvar, and a unit of its own draws from them with the run's latent_noise:
/// mean + exp(logvar / 2) · latent_noise. `encode` runs the model `vae` on image [B, 3, H, W] in [-1, 1].
pipeline::Units latent_units(const std::string& kind, const std::string& vae, Encode encode);

/// The unit from `reference_images` to `latents_of_references`: lists of the means [C, h, w], picture by picture. `encode` as above.
pipeline::Units reference_picture_units(const std::string& vae, Encode encode);

/// The one picture [3, H, W] of a sample in a column; a data Error where there are more.
const at::Tensor& picture_of(pipeline::Scope& scope, const std::string& column);
/// Where a mask [3, H, W] is white [H, W]: 1, elsewhere 0.
at::Tensor white_of(const at::Tensor& mask_3HW);
/// Every n-th row and column from `first` on.
at::Tensor every_nth(const at::Tensor& x_HW, int64_t first, int64_t n);
/// Latents [1, C, h, w] of a picture that controls; with a mask (undefined: none) of the picture with black where that is white, and behind
/// them as a further channel 1 where it is kept, between 0 and 1 on gray (DiffSynth-Studio: FluxImageUnit_ControlNet of
/// pipelines/flux_image.py). `downsampling`: pixels along a side of a latent.
at::Tensor control_latents(const at::Tensor& image_3HW, const at::Tensor& mask_3HW, int64_t downsampling,
                           const std::function<at::Tensor(const at::Tensor& image_13HW)>& encode);

/// Of lists of as many tensors, of equal sizes in their order, a batch for each place: [B, ...].
std::vector<at::Tensor> stack_lists(const pipeline::TensorLists& lists);

/// A text's tokens as a batch of one [1, L], int64.
at::Tensor as_batch(const std::vector<int64_t>& ids, c10::Device device);
/// How many tokens of a text an encoder reads that was checked or loaded, special ones counted.
int64_t token_limit(const Components& components, const std::string& encoder);

/// What the unit from `prompt` to text_embedding [1, L, width] and text_mask [1, L], ones, does with a Qwen text encoder named
/// "text_encoder": the states after `layer` layers of as many tokens as it reads, without those of the first `num_dropped`. The text of a
/// model that is only named is as long as may be.
void encode_by_qwen(pipeline::Scope& scope, Components& components, c10::Device device, int64_t layer, int64_t num_dropped = 0);

/// Writes states [1, L, width] of a text as text_embedding and text_mask.
void write_text(pipeline::Scope& scope, const at::Tensor& states_1LD);

/// latents, noise and the process's time -> noisy, target; a unit for each of the streams. `process` must outlive the units.
pipeline::Units noise_units(const diffusion::Process& process, const std::vector<LatentSpace::Stream>& streams);

/// latents -> image. `decode` runs the model `vae` on latents [B, C, h, w] as the denoiser sees them.
pipeline::Units decode_units(const std::string& vae, std::function<at::Tensor(const at::Tensor& latents)> decode);

/// Of texts, what a text encoder makes of them.
struct TokenCount {
  std::string encoder;
  int64_t limit = 0;             ///< tokens that it reads of a text
  int64_t longest = 0;           ///< tokens of the longest text
  int64_t num_cut = 0;           ///< texts that have more than it reads
  const char* option = nullptr;  ///< that sets the limit; null: none does
};

/// For every text encoder that the units run; of those that the model has not, nothing is said.
std::vector<TokenCount> count_tokens(Components& components, const pipeline::Units& units, const std::vector<std::string>& texts);

/// Warns, in a line for every text encoder that the units run, how many of these texts it cuts, at how many tokens, and how long the
/// longest is. `what` they are: "captions".
void warn_of_cut_texts(Components& components, const pipeline::Units& units, const std::vector<std::string>& texts, const char* what);

}  // namespace burnish::models
