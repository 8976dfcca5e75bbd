#include <png.h>

#include <cstring>
#include <memory>
#include <vector>

#include "data/codecs.h"
#include "data/image.h"
#include "io/files.h"

namespace burnish::data {

namespace {

struct Source {
  std::string_view bytes;
  char message[160] = "";
};

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (count > source->bytes.size()) png_error(png, "the file ends early");
  std::memcpy(to, source->bytes.data(), count);
  source->bytes.remove_prefix(count);
}

void on_error(png_structp png, png_const_charp text) {
  auto* source = static_cast<Source*>(png_get_error_ptr(png));
  std::strncpy(source->message, text, sizeof source->message - 1);
  png_longjmp(png, 1);
}

int orientation_of(png_structp png, png_infop info) {
  png_bytep exif = nullptr;
  png_uint_32 length = 0;
  if (!png_get_eXIf_1(png, info, &length, &exif)) return 1;
  return exif_orientation({reinterpret_cast<char*>(exif), length});
}

std::string profile_of(png_structp png, png_infop info) {
  png_charp name = nullptr;
  png_bytep profile = nullptr;
  png_uint_32 length = 0;
  int compression = 0;
  if (!png_get_iCCP(png, info, &name, &compression, &profile, &length)) return "";
  return {reinterpret_cast<char*>(profile), length};
}

}  // namespace

std::map<std::string, std::string> read_png_text(const std::filesystem::path& path) {
  auto bytes = io::read_text(path);
  Source source{bytes};
  std::map<std::string, std::string> text;
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, on_error, [](png_structp, png_const_charp) {});
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png))) {
    png_destroy_read_struct(&png, &info, nullptr);
    refuse_picture(path.string(), source.message);
  }
  png_set_read_fn(png, &source, read_bytes);
  png_read_info(png, info);
  png_textp entries = nullptr;
  int count = 0;
  png_get_text(png, info, &entries, &count);
  for (int i = 0; i < count; ++i) text[entries[i].key] = entries[i].text;
  png_destroy_read_struct(&png, &info, nullptr);
  return text;
}

Decoded decode_png(std::string_view bytes, const std::string& file, bool header_only) {
  Source source{bytes};
  Decoded out;
  const auto rows = std::make_unique<std::vector<uint8_t>>();  // on the heap: longjmp may undo what was changed in this frame
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, on_error, [](png_structp, png_const_charp) {});
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png))) {
    png_destroy_read_struct(&png, &info, nullptr);
    refuse_picture(file, source.message);
  }
  png_set_read_fn(png, &source, read_bytes);
  png_read_info(png, info);
  out.size = {static_cast<int64_t>(png_get_image_height(png, info)), static_cast<int64_t>(png_get_image_width(png, info))};
  int orientation = orientation_of(png, info);
  if (!header_only && out.size.height <= kMostPixels / out.size.width) {
    // Everything becomes 8-bit RGBA; the upper byte of a 16-bit sample is its 8-bit value.
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_gray_to_rgb(png);
    bool has_alpha = (png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png, info, PNG_INFO_tRNS) != 0;
    png_set_add_alpha(png, 0xFF, PNG_FILLER_AFTER);
    auto passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    out = undecoded(out.size, has_alpha);
    out.icc_profile = profile_of(png, info);
    // The passes of an interlaced picture fill whole rows only together.
    auto row_bytes = out.size.width * 4;
    rows->resize(static_cast<size_t>(passes > 1 ? out.size.height * row_bytes : row_bytes));
    for (int pass = 0; pass < passes; ++pass) {
      for (int64_t y = 0; y < out.size.height; ++y) {
        auto* row = rows->data() + (passes > 1 ? y * row_bytes : 0);
        png_read_row(png, row, nullptr);
        if (pass == passes - 1) put_row(out, y, row);
      }
    }
    png_read_end(png, info);
    if (orientation == 1) orientation = orientation_of(png, info);
  }
  png_destroy_read_struct(&png, &info, nullptr);
  check_size(out.size.height, out.size.width, file);
  out.orientation = orientation;
  return out;
}

}  // namespace burnish::data
