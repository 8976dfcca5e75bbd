#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "base/extent.h"
#include "models/files/files.h"
#include "models/text/qwen3_vl_vision.h"

// MiniMax-H3 is shown references in sizes of its own, and its text tells of them (diffusers: encoders.py and before_encoder.py of
// modular_pipelines/minimax_h3).
namespace burnish::models::minimax_h3 {

/// Returns the extent at which a picture or clip is shown: of this area where it is above 0, else as released, a picture with a short side
/// of 2048, a clip with one of 768 in an area of at most 768 by 1344. Sides are multiples of 32. A sound, which has no sides, stays.
Extent shown_extent(const Extent& given, int64_t area);

/// Returns a picture [3, H, W] in [-1, 1], or a clip [3, F, H, W], scaled to what `shown_extent` says.
at::Tensor shown(const at::Tensor& pixels, int64_t area);

/// Returns the numbers of the frames of a clip that the text encoder is shown: two a second. A data Error where there is but one.
std::vector<int64_t> frames_in_text(int64_t num_frames);

/// What the vision tower made of a reference, as tensors in a list: one whose sizes say whether it sounds and how many frames of it are
/// shown, and behind it one [K, R, C, E] for a picture or for every two of these frames.
std::vector<at::Tensor> seen_reference(bool sounds, int64_t num_shown, std::vector<at::Tensor> seen);

/// A text's references as it tells of them, each part to be cut into tokens by itself, and what is seen of them.
struct ToldReferences {
  std::vector<std::string> parts;
  std::vector<at::Tensor> seen;
};
/// Reads a list of what `seen_reference` gives, one reference behind the other: "<Audio j>: " before what sounds, "<Picture i>: " and the
/// picture, "<Video k>: " and, for every two frames shown, the mean of their times and the frames.
ToldReferences told_references(const std::vector<at::Tensor>& list);

/// Returns the sides at which so many frames of a clip are shown to the tower; the rule's pixels are those of all frames together
/// (transformers: smart_resize of video_processing_qwen3_vl.py).
std::pair<int64_t, int64_t> shown_sides(int64_t num_frames, int64_t height, int64_t width, const text::Patching& patching,
                                        const text::PixelRule& rule);
/// Reads that rule from the processor's folder, the chosen one or that beside the model; Qwen3-VL's published one where none is there.
text::PixelRule find_clip_rule(const ModelFiles& files, const std::string& chosen);

}  // namespace burnish::models::minimax_h3
