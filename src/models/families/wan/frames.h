#pragma once
#include <string_view>

#include "base/column.h"
#include "models/families/wan/config.h"
#include "models/parts/clip_vision.h"
#include "models/parts/held_frame.h"
#include "models/parts/shared_units.h"

// What Wan reads of a clip's first and last frame, where a run gives them.
namespace burnish::models::wan {

/// Channels of the mask of given frames: the four frames of the clip that a frame of the latents stands for.
inline constexpr int64_t kMaskChannels = 4;

/// The way in which a model goes on from a picture.
enum class FirstFrame {
  none,    ///< it does not: text to video
  held,    ///< the first frame of the latents is that of the picture, without noise (TI2V-5B, S2V)
  beside,  ///< a mask of four channels and the latents of the clip, of which that frame alone is known, stand behind the noisy ones
};
/// Tells it by the channels that the transformer reads, and by the autoencoder, that of Wan 2.2 being for frames that are held.
FirstFrame first_frame_of(const Config& config, const vae::CausalConfig& autoencoder);
/// Returns the frames a second of the clips that the model was made with.
double frame_rate_of(const Config& config, const vae::CausalConfig& autoencoder);

/// The column that asks for the last frame too, of models that read frames beside the noisy latents. Where a row names a picture in it,
/// this is the last frame; else it is the clip's own.
inline const Column kLastFrame{
    .name = "end_image", .fit = Column::Fit::as_target, .words = {"a model that goes on from frames beside the noise"}};

/// The column that asks for another first frame than the clip's own, where a row names a picture in it.
inline const Column kStartFrame{.name = "start_image", .fit = Column::Fit::as_target, .words = {"a model that goes on from a first frame"}};

/// Which frames of a clip are given, and whether a column may have pictures in place of the clip's own first one.
struct GivenFrames {
  bool has_column = false, has_last = false;
};
/// Returns what takes first frames of the column, where there is one; null where it is the clip's own.
FirstFrames frames_of_column(GivenFrames given);
/// Makes the unit from a clip, of which it reads the first frame, the last where it is given and the length, to beside_latents
/// [B, 4 + C, f, h, w].
pipeline::Units beside_frame_units(const std::string& vae, const Encode& encode, GivenFrames given);
/// Makes the unit from a clip, of which it reads the given frames, to image_states [B, N, W]: what CLIP makes of them, one behind the
/// other. `see` runs the model `encoder` on pictures [B, 3, H, W] in [-1, 1].
pipeline::Units image_state_units(const std::string& encoder, const std::function<at::Tensor(const at::Tensor& image)>& see,
                                  GivenFrames given);
/// Returns of beside_latents what stands in so many channels: the mask is left out where there is no room for it. Cameras see the first
/// frame's latents alone then.
at::Tensor behind_noise(const Config& config, const at::Tensor& beside_BCFHW, int64_t num_channels);

}  // namespace burnish::models::wan
