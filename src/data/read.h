#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "base/column.h"
#include "data/clip_window.h"
#include "data/crop.h"
#include "data/raw_sound.h"

namespace burnish::data {

/// The contents of a cell: a picture, uint8 [H, W, C], the frames of a clip or of layers [F, H, W, C], a sound fp32 [C, N] in [-1, 1] (of
/// one channel [N]), or numbers fp32 [N]; pictures in their order; or a text.
using Cell = std::variant<at::Tensor, std::vector<at::Tensor>, std::string>;

/// Says how a file's picture of such a size is scaled and cut.
using CropOf = std::function<Crop(const std::string& file, const Size& picture)>;

/// The numbers that are read of a picture's pixels.
enum class Pixels {
  colours,  ///< laid over white, C = 3
  layer,    ///< colours and how opaque they are, C = 4
  alpha,    ///< how opaque they are, C = 1
  gray      ///< the mean of the colours, C = 1
};
/// Returns what is read of the pixels of a column.
Pixels pixels_of(const Column& column);

/// Reads a picture, scaled and cut.
at::Tensor read_picture(const std::string& file, Pixels pixels, const CropOf& crop_of);
/// Reads pictures in their order, each scaled and cut.
std::vector<at::Tensor> read_pictures(const std::vector<std::string>& files, Pixels pixels, const CropOf& crop_of);
/// Reads layers as the frames of a clip; a single one is a picture.
at::Tensor read_layers(const std::vector<std::string>& files, const CropOf& crop_of);
/// Reads a window of a clip's frames, each scaled and cut, one of them in memory at a time.
at::Tensor read_frames(const std::string& file, const ClipWindow& window, Pixels pixels, const CropOf& crop_of);

/// So many samples of silence, in the channels of the column.
at::Tensor silence(const Column& column, int64_t num_samples);
/// Reads a stretch of a file's sound, at the column's rate and in its channels; no_sound where the file has none.
at::Tensor read_sound(const Column& column, const std::string& file, const SoundWindow& window);

/// Reads a cell of numbers, of a text or of the name of a file of numbers; `where` is for messages: "row 3", "a prompt". Of a tensor whose
/// cell is its example come so many zeros. A data Error for what is none.
Cell read_value(const Column& column, const nlohmann::json& cell, const std::string& where);
/// Names the content of such a cell: what stands in it, and where a text in it names a file what is in that.
std::string content_of_value(const nlohmann::json& cell);

}  // namespace burnish::data
