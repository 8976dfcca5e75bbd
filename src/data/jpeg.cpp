#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <cstdio>
// jpeglib.h needs FILE declared before it.
#include <jpeglib.h>

#include <csetjmp>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "data/codecs.h"
#include "data/color_profile.h"

namespace burnish::data {

namespace {

struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX] = "";
};

void on_error(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->text);
  std::longjmp(errors->jump, 1);
}

/// A warning that data ended early or is corrupt is an error here: half a picture is not a sample.
void on_message(j_common_ptr info, int level) {
  if (level < 0) on_error(info);
}

int orientation_of(const jpeg_decompress_struct& jpeg) {
  for (auto* marker = jpeg.marker_list; marker; marker = marker->next) {
    std::string_view data(reinterpret_cast<char*>(marker->data), marker->data_length);
    if (marker->marker == JPEG_APP0 + 1 && data.starts_with("Exif")) return exif_orientation(data);
  }
  return 1;
}

std::string profile_of(jpeg_decompress_struct& jpeg) {
  JOCTET* bytes = nullptr;
  unsigned length = 0;
  if (!jpeg_read_icc_profile(&jpeg, &bytes, &length)) return "";
  std::unique_ptr<JOCTET, decltype(&std::free)> owner(bytes, std::free);
  return {reinterpret_cast<char*>(bytes), length};
}

at::Tensor cmyk_to_rgb(const at::Tensor& inks_HW4) {
  auto x = 255 - inks_HW4.to(at::kInt);
  auto black = x.narrow(2, 3, 1);
  return ((x.narrow(2, 0, 3) * black + 127).floor_divide(255)).to(at::kByte);
}

}  // namespace

Decoded decode_jpeg(std::string_view bytes, const std::string& file, bool header_only) {
  jpeg_decompress_struct jpeg{};
  JpegErrors errors{};
  Decoded out;  // destroyed normally: longjmp lands in this frame
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = on_error;
  errors.manager.emit_message = on_message;
  if (setjmp(errors.jump)) {
    jpeg_destroy_decompress(&jpeg);
    data_error("data", "{} cannot be decoded: {}", file, errors.text);
  }
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_save_markers(&jpeg, JPEG_APP0 + 1, 0xFFFF);  // EXIF
  jpeg_save_markers(&jpeg, JPEG_APP0 + 2, 0xFFFF);  // ICC
  jpeg_read_header(&jpeg, TRUE);
  out.size = {jpeg.image_height, jpeg.image_width};
  out.orientation = orientation_of(jpeg);
  bool four = jpeg.num_components == 4, inverted = jpeg.saw_Adobe_marker;
  if (!header_only) {
    out.icc_profile = profile_of(jpeg);
    jpeg.out_color_space = four ? JCS_CMYK : JCS_RGB;
    int64_t channels = four ? 4 : 3;
    if (out.size.height * out.size.width <= kMostPixels) {
      out.pixels_HW3 = at::empty({out.size.height, out.size.width, channels}, at::TensorOptions().dtype(at::kByte));
      jpeg_start_decompress(&jpeg);
      auto* base = out.pixels_HW3.mutable_data_ptr<uint8_t>();
      while (jpeg.output_scanline < jpeg.output_height) {
        auto* row = base + static_cast<int64_t>(jpeg.output_scanline) * out.size.width * channels;
        jpeg_read_scanlines(&jpeg, &row, 1);
      }
      jpeg_finish_decompress(&jpeg);
    }
  }
  jpeg_destroy_decompress(&jpeg);
  check_size(out.size.height, out.size.width, file);
  if (!header_only && four) {
    // Adobe's CMYK is stored inverted: 255 is no ink.
    auto inks_HW4 = inverted ? 255 - out.pixels_HW3 : out.pixels_HW3;
    out.pixels_HW3 = inks_to_srgb(inks_HW4, out.icc_profile);
    if (!out.pixels_HW3.defined()) out.pixels_HW3 = cmyk_to_rgb(inks_HW4);
  }
  return out;
}

}  // namespace burnish::data
