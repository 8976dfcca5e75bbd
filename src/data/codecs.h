#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/library.h"
#include "data/size.h"

// Inside of the data room: one decoder per file format, each from bytes. `file` is for messages.
namespace burnish::data {

/// A picture as its file has it: before its orientation, its colour profile and the white below it are applied. With `header_only` the
/// pixels are left out. While it is decoded a picture takes 3 bytes a pixel, and one more with transparency; interlaced PNG, WebP, TIFF,
/// HEIC, AVIF and JPEG XL take 4 more, lossless WebP 8 more.
struct Decoded {
  Size size;
  at::Tensor pixels_HW3 = {};    ///< uint8
  at::Tensor alpha_HW1 = {};     ///< uint8; undefined where there is no transparency
  int orientation = 1;           ///< EXIF, 1 to 8
  std::string icc_profile = {};  ///< ICC profile of the pixels; "" where the file has none
};

/// Throws a data Error about a picture, for the reason that a library gives; std::bad_alloc where that is memory and there is none.
[[noreturn]] void refuse_picture(const std::string& file, const std::string& reason);

/// Refuses the file for what reading it threw, which is being handled; what is neither of a library nor about memory is thrown on.
[[noreturn]] void refuse_for_exception(const std::string& file);

/// Runs what reads a file. Whatever its library throws, and a header that asks for more memory than there is, is a data Error that names
/// the file.
template <class Action>
auto reading(const std::string& file, const Action& action) {
  try {
    return action();
  } catch (...) {
    refuse_for_exception(file);
  }
}

Decoded decode_jpeg(std::string_view bytes, const std::string& file, bool header_only);
Decoded decode_png(std::string_view bytes, const std::string& file, bool header_only);
Decoded decode_webp(std::string_view bytes, const std::string& file, bool header_only);
Decoded decode_tiff(std::string_view bytes, const std::string& file, bool header_only);
Decoded decode_heif(std::string_view bytes, const std::string& file, bool header_only);  ///< HEIC and AVIF
Decoded decode_jxl(std::string_view bytes, const std::string& file, bool header_only);   ///< JPEG XL
Decoded decode_gif(std::string_view bytes, const std::string& file, bool header_only);
Decoded decode_bmp(std::string_view bytes, const std::string& file, bool header_only);

/// Decodes bytes by the decoder whose format they begin with.
Decoded decode_bytes(std::string_view bytes, const std::string& file, bool header_only);

/// Gives `take` the rows of a JPEG as decode_image has them, without ever holding more than one. False, and nothing is given, where it is
/// turned by its orientation or made of inks. libjpeg's scaled decoding is not used: its results are others, and of its scales only one
/// half and less take less time than the whole.
bool decode_jpeg_rows(std::string_view bytes, const std::string& file, const std::function<void(const uint8_t* row_W3)>& take);

/// The orientation in an EXIF block (with or without its "Exif\0\0" start); 1 when there is none.
int exif_orientation(std::string_view exif);

/// The most that a picture may have: 16384 by 16384, of which the pixels alone are 768 MiB.
constexpr int64_t kMostPixels = int64_t{1} << 28;

/// Throws a data Error for a picture without pixels, or with more than kMostPixels.
void check_size(int64_t height, int64_t width, const std::string& file);

/// Throws a data Error where the library that decodes the file could not be opened: its `name`, and the `package` of Debian's.
void check_reader(const Library& library, const std::string& file, const char* name, const char* package);

/// A picture of this size with its pixels not yet set, and with room for its transparency.
Decoded undecoded(Size size, bool has_alpha);

/// Sets row `y` of a picture, given as RGBA.
void put_row(Decoded& picture, int64_t y, const uint8_t* row_W4);

}  // namespace burnish::data
