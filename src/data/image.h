#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/size.h"

namespace burnish::data {

/// A JPEG, PNG, WebP, TIFF, HEIC, AVIF, JPEG XL, GIF or BMP picture (told by content, not by name) as uint8 [H, W, 3] in sRGB. EXIF
/// orientation and colour profile are applied, CMYK and gray become RGB, 16 bits become 8, transparency is laid over white, and of an
/// animation the first frame is taken. A data Error names the file and the reason when it cannot be read.
at::Tensor decode_image(const std::filesystem::path& path);

/// The same of the bytes of a file; `file` is for messages.
at::Tensor decode_upright(std::string_view bytes, const std::string& file);

/// Such a picture with how opaque each of its pixels is, uint8 [H, W, 1]; 255 where the file holds no transparency.
struct UprightPicture {
  at::Tensor pixels_HW3, alpha_HW1;
};
UprightPicture decode_with_alpha(std::string_view bytes, const std::string& file);

/// Decodes such a picture with its transparency, uint8 [H, W, 4]: colours are those of the file, and nothing is laid over white.
at::Tensor decode_rgba(const std::filesystem::path& path);

/// Decodes how opaque each pixel of such a picture is, uint8 [H, W, 1]; 255 where the file holds no transparency.
at::Tensor decode_alpha(const std::filesystem::path& path);

/// The mean of the three channels of such a picture, uint8 [H, W, 1], whatever its colour profile: a gray picture as it is.
at::Tensor decode_gray(const std::filesystem::path& path);

/// The mean of the three channels of a frame, uint8 [H, W, 1].
at::Tensor gray_of(const at::Tensor& frame_HW3);

/// Height and width after orientation, from the file's header.
Size image_size(const std::filesystem::path& path);

/// Writes uint8 [H, W, 3], [H, W, 4] with transparency, or gray [H, W, 1], as PNG, atomically, with `text` as its metadata (UTF-8).
void write_png(const std::filesystem::path& path, const at::Tensor& pixels_HWC,
               const std::vector<std::pair<std::string, std::string>>& text = {});

/// The metadata of a PNG file that stands before its pixels, where write_png puts it; a data Error when it cannot be read.
std::map<std::string, std::string> read_png_text(const std::filesystem::path& path);

/// Writes uint8 [H, W, 3] as the bytes of a WebP file, of a quality from 0 to 100.
std::string encode_webp(const at::Tensor& pixels_HW3, float quality);

}  // namespace burnish::data
