#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <cstdio>
// jpeglib.h needs FILE declared before it.
#include <jpeglib.h>

#include <csetjmp>
#include <cstdlib>
#include <memory>
#include <vector>

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

/// A JPEG file that is being read. A function that calls the library through it says first that errors come back into its own frame.
struct JpegFile {
  explicit JpegFile(const std::string& name) : file(name) {
    info.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = on_error;
    errors.manager.emit_message = on_message;
    jpeg_create_decompress(&info);
  }
  JpegFile(const JpegFile&) = delete;
  JpegFile& operator=(const JpegFile&) = delete;
  ~JpegFile() { jpeg_destroy_decompress(&info); }
  [[noreturn]] void refuse() const { refuse_picture(file, errors.text); }

  bool is_of_inks() const { return info.num_components == 4; }

  jpeg_decompress_struct info{};
  JpegErrors errors{};
  const std::string& file;
};

Decoded read_header(JpegFile& jpeg, std::string_view bytes) {
  Decoded header;  // before the jump's target, so that it is destroyed as usual
  if (setjmp(jpeg.errors.jump)) jpeg.refuse();
  jpeg_mem_src(&jpeg.info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_save_markers(&jpeg.info, JPEG_APP0 + 1, 0xFFFF);  // EXIF
  jpeg_save_markers(&jpeg.info, JPEG_APP0 + 2, 0xFFFF);  // ICC
  jpeg_read_header(&jpeg.info, TRUE);
  header.size = {jpeg.info.image_height, jpeg.info.image_width};
  check_size(header.size.height, header.size.width, jpeg.file);
  header.orientation = orientation_of(jpeg.info);
  header.icc_profile = profile_of(jpeg.info);
  return header;
}

/// Row y into `first_row` + y * `stride`; `take` is told of each.
template <class Take>
void read_rows(JpegFile& jpeg, uint8_t* first_row, int64_t stride, const Take& take) {
  if (setjmp(jpeg.errors.jump)) jpeg.refuse();
  jpeg.info.out_color_space = jpeg.is_of_inks() ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&jpeg.info);
  while (jpeg.info.output_scanline < jpeg.info.output_height) {
    auto* row = first_row + static_cast<int64_t>(jpeg.info.output_scanline) * stride;
    jpeg_read_scanlines(&jpeg.info, &row, 1);
    take(row);
  }
  jpeg_finish_decompress(&jpeg.info);
}

at::Tensor cmyk_to_rgb(const at::Tensor& inks_HW4) {
  auto x = 255 - inks_HW4.to(at::kInt);
  auto black = x.narrow(2, 3, 1);
  return ((x.narrow(2, 0, 3) * black + 127).floor_divide(255)).to(at::kByte);
}

}  // namespace

Decoded decode_jpeg(std::string_view bytes, const std::string& file, bool header_only) {
  JpegFile jpeg(file);
  auto out = read_header(jpeg, bytes);
  if (header_only) return out;
  const bool of_inks = jpeg.is_of_inks();
  const int64_t channels = of_inks ? 4 : 3;
  out.pixels_HW3 = at::empty({out.size.height, out.size.width, channels}, at::TensorOptions().dtype(at::kByte));
  read_rows(jpeg, out.pixels_HW3.mutable_data_ptr<uint8_t>(), out.size.width * channels, [](uint8_t*) {});
  if (of_inks) {
    // Adobe's CMYK is stored inverted: 255 is no ink.
    auto inks_HW4 = jpeg.info.saw_Adobe_marker ? 255 - out.pixels_HW3 : out.pixels_HW3;
    out.pixels_HW3 = inks_to_srgb(inks_HW4, out.icc_profile);
    if (!out.pixels_HW3.defined()) out.pixels_HW3 = cmyk_to_rgb(inks_HW4);
  }
  return out;
}

bool decode_jpeg_rows(std::string_view bytes, const std::string& file, const std::function<void(const uint8_t* row_W3)>& take) {
  JpegFile jpeg(file);
  auto header = read_header(jpeg, bytes);
  if (header.orientation != 1 || jpeg.is_of_inks()) return false;
  ToSrgb to_srgb(header.icc_profile);
  // libjpeg-turbo writes an aligned row past the caches, and it would have to come back from main memory: this one is not aligned.
  std::vector<uint8_t> row(static_cast<size_t>(header.size.width) * 3 + 1);
  read_rows(jpeg, row.data() + 1, 0, [&](uint8_t* pixels) {
    to_srgb.convert(pixels, header.size.width);
    take(pixels);
  });
  return true;
}

}  // namespace burnish::data
