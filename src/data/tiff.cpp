#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/input_error.h"
#include "data/codecs.h"

namespace burnish::data {

namespace {

/// Bytes in memory as a file that libtiff reads.
struct TiffBytes {
  std::string_view bytes;
  toff_t place = 0;
  bool ended_early = false;  ///< something was asked for that lies beyond the end; libtiff goes on without it
};

/// libtiff, opened when the first such picture comes.
struct Tiff {
  Library library{companion("tiff").string()};
  decltype(&TIFFClientOpen) client_open = library.find("TIFFClientOpen");
  decltype(&TIFFClose) close = library.find("TIFFClose");
  decltype(&TIFFGetField) get_field = library.find("TIFFGetField");
  decltype(&TIFFGetFieldDefaulted) get_field_defaulted = library.find("TIFFGetFieldDefaulted");
  decltype(&TIFFReadRGBAImageOriented) read_rgba_image_oriented = library.find("TIFFReadRGBAImageOriented");
  decltype(&TIFFSetErrorHandler) set_error_handler = library.find("TIFFSetErrorHandler");
  decltype(&TIFFSetWarningHandler) set_warning_handler = library.find("TIFFSetWarningHandler");

  Tiff() {
    if (!library.is_open()) return;
    set_error_handler(nullptr);  // what is wrong is said by an Error
    set_warning_handler(nullptr);
  }
};

const Tiff& libtiff(const std::string& file) {
  static const Tiff loaded;
  check_reader(loaded.library, file, "libtiff", "libtiff6");
  return loaded;
}

TiffBytes& bytes_of(thandle_t handle) { return *static_cast<TiffBytes*>(handle); }

tmsize_t read_tiff(thandle_t handle, void* to, tmsize_t count) {
  auto& file = bytes_of(handle);
  auto left = file.bytes.size() - std::min<toff_t>(file.place, file.bytes.size());
  auto length = std::min<toff_t>(static_cast<toff_t>(count), left);
  file.ended_early = file.ended_early || length < static_cast<toff_t>(count);
  if (length == 0) return 0;
  std::memcpy(to, file.bytes.data() + file.place, length);
  file.place += length;
  return static_cast<tmsize_t>(length);
}

tmsize_t write_tiff(thandle_t, void*, tmsize_t) { return 0; }

toff_t seek_tiff(thandle_t handle, toff_t offset, int whence) {
  auto& file = bytes_of(handle);
  if (whence == SEEK_CUR) offset += file.place;
  if (whence == SEEK_END) offset += file.bytes.size();
  return file.place = offset;
}

int close_tiff(thandle_t) { return 0; }

toff_t tiff_size(thandle_t handle) { return bytes_of(handle).bytes.size(); }

/// libtiff gives transparent colours multiplied by their opacity.
void put_plain_colors(const uint32_t* pixels, size_t width, uint8_t* row_W4) {
  for (size_t x = 0; x < width; ++x, row_W4 += 4) {
    const uint32_t alpha = TIFFGetA(pixels[x]), colors[] = {TIFFGetR(pixels[x]), TIFFGetG(pixels[x]), TIFFGetB(pixels[x])};
    for (int c = 0; c < 3; ++c)
      row_W4[c] = static_cast<uint8_t>(alpha == 0 ? 255 : std::min<uint32_t>(255, (colors[c] * 255 + alpha / 2) / alpha));
    row_W4[3] = static_cast<uint8_t>(alpha);
  }
}

}  // namespace

Decoded decode_tiff(std::string_view bytes, const std::string& file, bool header_only) {
  const auto& lib = libtiff(file);
  TiffBytes source{bytes};
  std::unique_ptr<TIFF, decltype(lib.close)> tiff(
      lib.client_open("", "rm", &source, read_tiff, write_tiff, seek_tiff, close_tiff, tiff_size, nullptr, nullptr), lib.close);
  uint32_t width = 0, height = 0;
  uint16_t orientation = ORIENTATION_TOPLEFT;
  if (!tiff || lib.get_field(tiff.get(), TIFFTAG_IMAGEWIDTH, &width) != 1 || lib.get_field(tiff.get(), TIFFTAG_IMAGELENGTH, &height) != 1)
    data_error("data", "{} cannot be decoded: it is truncated or not a TIFF picture", file);
  check_size(height, width, file);
  lib.get_field_defaulted(tiff.get(), TIFFTAG_ORIENTATION, &orientation);
  Decoded out{.size = {height, width}};
  out.orientation = orientation >= 1 && orientation <= 8 ? orientation : 1;
  if (header_only) return out;

  std::vector<uint32_t> raster(static_cast<size_t>(out.size.height * out.size.width));
  // Asked for the orientation that it has, the picture stays as it lies in the file, and is turned with those of other formats.
  if (lib.read_rgba_image_oriented(tiff.get(), width, height, raster.data(), out.orientation, /*stop on error=*/1) != 1 ||
      source.ended_early)
    data_error("data", "{} cannot be decoded: its picture data is truncated or damaged, or of a kind that libtiff does not turn into RGB",
               file);
  bool has_alpha = std::ranges::any_of(raster, [](uint32_t pixel) { return TIFFGetA(pixel) != 255; });
  auto pixels = undecoded(out.size, has_alpha);
  std::vector<uint8_t> row_W4(size_t{width} * 4);
  for (size_t y = 0; y < height; ++y) {
    put_plain_colors(raster.data() + y * width, width, row_W4.data());
    put_row(pixels, static_cast<int64_t>(y), row_W4.data());
  }
  out.pixels_HW3 = pixels.pixels_HW3;
  out.alpha_HW1 = pixels.alpha_HW1;
  uint32_t profile_bytes = 0;
  void* profile = nullptr;
  if (lib.get_field(tiff.get(), TIFFTAG_ICCPROFILE, &profile_bytes, &profile) == 1)
    out.icc_profile.assign(static_cast<const char*>(profile), profile_bytes);
  return out;
}

}  // namespace burnish::data
