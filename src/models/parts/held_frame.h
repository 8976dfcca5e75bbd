#pragma once
#include "models/parts/shared_units.h"

// A clip's first frame that is given: its latents stand in place of the noisy ones, without noise, and a walk leads to them.
namespace burnish::models {

/// The column of the metadata that asks for it, as DiffSynth-Studio calls it. The picture is the clip's own first frame.
inline constexpr std::string_view kFirstFrameColumn = "input_image";

/// Returns pictures [B, 3, H, W] as clips of one frame, and clips [B, 3, F, H, W] as they are, in [-1, 1].
at::Tensor as_clip(const at::Tensor& image);
/// Throws a config Error for a clip of one frame, which is given.
void check_has_more(int64_t num_frames);

/// Makes of what a unit reads the first frames [B, 3, H, W] of clips, of which `own` is each one's own.
using FirstFrames = std::function<at::Tensor(const pipeline::Scope& scope, const at::Tensor& own_BCHW)>;
/// Makes the unit from a clip, of which it reads the first frame, to first_latents [B, C, 1, h, w]; `reads` are columns that `frames`
/// reads, which is null where the clip's own frame is given.
pipeline::Units held_frame_units(const std::string& vae, const Encode& encode, const std::vector<std::string>& reads = {},
                                 const FirstFrames& frames = nullptr);
/// Makes the unit from latents to the loss_map that leaves out their first frame.
pipeline::Units held_frame_weights();

/// Returns the noisy latents with the given frame in place of their first.
at::Tensor with_first(const at::Tensor& noisy_BCFHW, const at::Tensor& first_BC1HW);
/// Puts in place of a prediction's first frame the velocity that leads from the noisy one to the given one, wherever a walk is.
at::Tensor leading_to_first(const at::Tensor& prediction_BCFHW, const at::Tensor& noisy_BCFHW, const at::Tensor& first_BC1HW,
                            const at::Tensor& sigma_B);

}  // namespace burnish::models
