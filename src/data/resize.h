#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "data/buckets.h"
#include "data/crop.h"

namespace burnish::data {

/// DiffSynth-Studio's size rule. Both height and width given: those. Otherwise the picture's own size, scaled down (never up) to
/// max_pixels, each side rounded down to a multiple of `division`. With buckets those say the size.
struct SizeRule {
  int64_t height = 0, width = 0;
  int64_t max_pixels = 1048576;
  int64_t division = 16;
  std::optional<BucketRule> buckets = {};

  /// The size that height and width say.
  Size fixed() const { return {height, width}; }
};

/// Throws a config Error for one side without the other and for numbers that are not positive.
void check_rule(const SizeRule& rule);

/// The size a picture is trained at; a data Error naming `file` when a side would become 0.
Size target_size(const SizeRule& rule, Size picture, const std::string& file);

/// The size of a picture scaled down, never up, until no side is longer than `side`; no side becomes 0.
Size within(Size picture, int64_t side);

/// Throws a data Error where a picture is no longer of the size that was found when the dataset was opened.
void check_unchanged(const std::filesystem::path& file, Size known, Size found);

/// Scales uint8 [H, W, C] to cover `crop.size`, as Pillow's Image.resize does (row_scaler.h), cuts the crop out and alters it. Of four
/// channels the last says how opaque a pixel is, and colours count by that, as in Pillow's RGBA: what cannot be seen colours nothing beside
/// it.
at::Tensor resize_and_crop(const at::Tensor& pixels_HWC, const Crop& crop);
/// Resizes and crops around the centre.
at::Tensor resize_and_crop(const at::Tensor& pixels_HWC, Size target);

/// Decodes a file as decode_image does, resizes it and cuts out what `crop_of` says for its size, in one go where the rows of a JPEG need
/// not be turned.
at::Tensor decode_and_crop(const std::filesystem::path& path, const std::function<Crop(const Size& picture)>& crop_of);
/// Cuts out `crop`; a data Error where the picture is not of the size `known`.
at::Tensor decode_and_crop(const std::filesystem::path& path, Size known, const Crop& crop);

/// Converts uint8 [H, W, C] to fp32 [C, H, W] in [-1, 1], on the device where they lie; the numbers are the same on every one.
at::Tensor to_model_range(const at::Tensor& pixels_HWC);
/// Converts the frames of a clip so: uint8 [F, H, W, C] to fp32 [C, F, H, W].
at::Tensor frames_to_model_range(const at::Tensor& pixels_FHWC);

/// Turns what to_model_range made back into pixels, clamped and rounded.
at::Tensor to_pixels(const at::Tensor& image_CHW);

}  // namespace burnish::data
