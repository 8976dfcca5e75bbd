#pragma once
#include <array>
#include <nlohmann/json_fwd.hpp>
#include <utility>

#include "nn/block.h"

// How pictures are shown to the vision towers that stand before Qwen's text encoders.
namespace burnish::models::text {

// Shape letters: N patches, P rotated pairs.

/// Says how a tower cuts pictures. Defaults are Qwen2.5-VL's.
struct Patching {
  int64_t patch = 14;                             ///< pixels of a patch's side
  int64_t num_frames = 2;                         ///< frames that a patch spans; a picture stands for all of them
  int64_t merge = 2;                              ///< patches of a cell's side; a cell becomes one token of the text
  int64_t cell() const { return patch * merge; }  ///< pixels of a cell's side
};

/// The most and the least pixels of a picture that a tower is shown, and how its colours are normalised. Defaults are those published with
/// Qwen2.5-VL, the colours' CLIP's.
struct PixelRule {
  int64_t least = 56 * 56, most = 12845056;
  std::array<double, 3> mean = {0.48145466, 0.4578275, 0.40821073}, deviation = {0.26862954, 0.26130258, 0.27577711};
};
/// Returns the rule published with Qwen3-VL.
PixelRule qwen3_vl_pixels();
/// Returns the rule of towers that are shown ImageNet's colours.
PixelRule imagenet_pixels();
/// Reads the rule from preprocessor_config.json (transformers: image_processing_qwen2_vl.py).
PixelRule pixel_rule(const nlohmann::json& preprocessor_json);
/// Normalises the colours of pictures of numbers from 0 to 255, [..., 3, H, W].
at::Tensor normalised(const at::Tensor& levels_3HW, const PixelRule& rule);
/// Returns what of a rule a tower's result depends on, for the key of a cache.
std::string settings_of(const PixelRule& rule);

/// Returns the sides of the picture that the tower is shown for one of these sides: multiples of a cell, its area as the rule says
/// (transformers: smart_resize). Throws a data Error for a picture that is more than 200 times as long as wide.
std::pair<int64_t, int64_t> shown_size(int64_t height, int64_t width, const Patching& patching, const PixelRule& rule);

/// A picture cut into patches, cell by cell.
struct Patches {
  at::Tensor pixels_NF;           ///< fp32, normalised; F = 3 · frames · patch · patch
  int64_t rows = 0, columns = 0;  ///< rows and columns of cells
};
/// Cuts a picture of whole numbers from 0 to 255, fp64 [3, H, W], scaled as the rule says, into patches.
Patches patches_of(const at::Tensor& levels_3HW, const Patching& patching, const PixelRule& rule);
/// Cuts as many such frames as a patch spans, [frames, 3, H, W] with sides of whole cells; one frame stands for all.
Patches patches_of_frames(const at::Tensor& levels_F3HW, const Patching& patching, const PixelRule& rule);

/// Returns the row [N] and the column [N] of every patch of so many rows and columns of cells, cell by cell.
std::pair<at::Tensor, at::Tensor> places_of_patches(const Patching& patching, int64_t rows, int64_t columns,
                                                    const at::TensorOptions& options);
/// Returns {cos, sin [N, P]} in fp32 for heads of a width: half of the pairs turn with the row of a patch, the others with its column.
nn::Tensors rotary_of_patches(const Patching& patching, int64_t head_dim, int64_t rows, int64_t columns, c10::Device device);

}  // namespace burnish::models::text
