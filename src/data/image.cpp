#include "data/image.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <png.h>

#include "base/input_error.h"
#include "data/archived_files.h"
#include "data/codecs.h"
#include "data/color_profile.h"
#include "data/over_white.h"
#include "io/files.h"

namespace burnish::data {

namespace {

Decoded decode_file(const std::filesystem::path& path, bool header_only) {
  return decode_bytes(read_file_bytes(path), path.string(), header_only);
}

void lay_over_white(Decoded& picture) {
  if (!picture.alpha_HW1.defined()) return;
  auto* color = picture.pixels_HW3.mutable_data_ptr<uint8_t>();
  const auto* opacity = picture.alpha_HW1.const_data_ptr<uint8_t>();
  for (int64_t i = 0; i < picture.pixels_HW3.numel(); ++i) color[i] = over_white(color[i], opacity[i / 3]);
}

/// EXIF orientations 1 to 8 as mirror and quarter turns.
at::Tensor upright(at::Tensor x, int orientation) {
  if (orientation >= 5) x = x.transpose(0, 1);  // 5: transposed
  bool mirror_rows = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  bool mirror_columns = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  if (mirror_rows) x = x.flip({0});
  if (mirror_columns) x = x.flip({1});
  return x.contiguous();
}

at::Tensor upright_pixels(Decoded decoded) {
  convert_to_srgb(decoded.pixels_HW3, decoded.icc_profile);
  lay_over_white(decoded);
  return upright(decoded.pixels_HW3, decoded.orientation);
}

at::Tensor upright_alpha(const Decoded& decoded) {
  auto alpha_HW1 = decoded.alpha_HW1;
  if (!alpha_HW1.defined()) alpha_HW1 = at::full({decoded.size.height, decoded.size.width, 1}, 255, at::kByte);
  return upright(alpha_HW1, decoded.orientation);
}

}  // namespace

at::Tensor decode_image(const std::filesystem::path& path) { return decode_upright(read_file_bytes(path), path.string()); }

at::Tensor decode_upright(std::string_view bytes, const std::string& file) { return upright_pixels(decode_bytes(bytes, file, false)); }

UprightPicture decode_with_alpha(std::string_view bytes, const std::string& file) {
  auto decoded = decode_bytes(bytes, file, false);
  auto alpha_HW1 = upright_alpha(decoded);
  return {upright_pixels(std::move(decoded)), alpha_HW1};
}

at::Tensor decode_rgba(const std::filesystem::path& path) {
  auto decoded = decode_file(path, false);
  convert_to_srgb(decoded.pixels_HW3, decoded.icc_profile);
  return at::cat({upright(decoded.pixels_HW3, decoded.orientation), upright_alpha(decoded)}, 2);
}

at::Tensor decode_alpha(const std::filesystem::path& path) { return upright_alpha(decode_file(path, false)); }

at::Tensor decode_gray(const std::filesystem::path& path) {
  auto decoded = decode_file(path, false);
  lay_over_white(decoded);
  auto sum_HW1 = upright(decoded.pixels_HW3, decoded.orientation).to(at::kInt).sum(2, /*keepdim=*/true);
  return (sum_HW1 + 1).floor_divide(3).to(at::kByte);
}

at::Tensor gray_of(const at::Tensor& frame_HW3) { return frame_HW3.to(at::kFloat).mean(2, /*keepdim=*/true).round().to(at::kByte); }

Size image_size(const std::filesystem::path& path) {
  auto decoded = decode_file(path, true);
  if (decoded.orientation >= 5) std::swap(decoded.size.height, decoded.size.width);
  return decoded.size;
}

void write_png(const std::filesystem::path& path, const at::Tensor& pixels_HWC,
               const std::vector<std::pair<std::string, std::string>>& text) {
  auto pixels = pixels_HWC.contiguous();
  const auto channels = static_cast<size_t>(pixels.size(2));
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png))) {
    png_destroy_write_struct(&png, &info);
    data_error("data", "cannot encode {}", path.string());
  }
  png_set_write_fn(
      png, &bytes,
      [](png_structp p, png_bytep data, size_t n) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), n);
      },
      nullptr);
  auto height = static_cast<png_uint_32>(pixels.size(0)), width = static_cast<png_uint_32>(pixels.size(1));
  const auto kind = channels == 4 ? PNG_COLOR_TYPE_RGB_ALPHA : channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB;
  png_set_IHDR(png, info, width, height, 8, kind, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_text> entries;
  for (const auto& [key, value] : text) {
    png_text entry{};
    entry.compression = PNG_ITXT_COMPRESSION_NONE;
    entry.key = const_cast<char*>(key.c_str());
    entry.text = const_cast<char*>(value.c_str());
    entry.lang = const_cast<char*>("");
    entry.lang_key = const_cast<char*>("");
    entries.push_back(entry);
  }
  png_set_text(png, info, entries.data(), static_cast<int>(entries.size()));
  png_write_info(png, info);
  auto* row = pixels.mutable_data_ptr<uint8_t>();
  for (png_uint_32 y = 0; y < height; ++y) png_write_row(png, row + static_cast<size_t>(y) * width * channels);
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  io::write_text_atomic(path, bytes);
}

}  // namespace burnish::data
