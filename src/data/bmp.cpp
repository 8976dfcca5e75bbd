#include <array>
#include <bit>
#include <vector>

#include "base/input_error.h"
#include "data/codecs.h"

namespace burnish::data {

namespace {

/// A number of a BMP file, lowest byte first; 0 beyond its end.
uint32_t number_at(std::string_view bytes, size_t at, size_t num_bytes) {
  if (at > bytes.size() || num_bytes > bytes.size() - at) return 0;
  uint32_t value = 0;
  for (size_t i = num_bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

/// What the headers of a BMP file say.
struct BmpHeader {
  Size size;
  bool from_top = false;
  uint32_t bits = 0;                      ///< of a pixel
  std::array<uint32_t, 4> masks{};        ///< of red, green, blue and opacity in pixels of 16 and 32 bits
  size_t palette = 0, palette_entry = 0;  ///< where it begins, and bytes of an entry
  size_t pixels = 0;                      ///< where they begin
};

enum BmpCompression : uint32_t { kNone = 0, kBitFields = 3, kAlphaBitFields = 6 };

BmpHeader read_bmp_header(std::string_view bytes, const std::string& file) {
  auto info = number_at(bytes, 14, 4);  // bytes of the second header, which says what it holds
  bool old = info == 12;
  if (bytes.size() < 26 || (!old && (info < 40 || info > bytes.size() - 14)))
    data_error("data", "{} cannot be decoded: it is truncated or not a BMP picture", file);
  BmpHeader header;
  auto height = static_cast<int32_t>(old ? number_at(bytes, 20, 2) : number_at(bytes, 22, 4));
  auto width = static_cast<int32_t>(old ? number_at(bytes, 18, 2) : number_at(bytes, 18, 4));
  header.from_top = height < 0;
  header.size = {height < 0 ? -int64_t{height} : int64_t{height}, width};
  header.bits = number_at(bytes, old ? 24 : 28, 2);
  auto compression = old ? kNone : number_at(bytes, 30, 4);
  bool has_masks = (compression == kBitFields || compression == kAlphaBitFields) && (header.bits == 16 || header.bits == 32);
  if (header.bits == 16) header.masks = {0x7C00, 0x03E0, 0x001F, 0};
  if (header.bits == 32) header.masks = {0xFF0000, 0xFF00, 0xFF, 0};
  for (size_t c = 0; has_masks && c < (info >= 56 || compression == kAlphaBitFields ? 4 : 3); ++c)
    header.masks[c] = number_at(bytes, 54 + 4 * c, 4);
  bool known = header.bits == 1 || header.bits == 4 || header.bits == 8 || header.bits == 16 || header.bits == 24 || header.bits == 32;
  if (!known || (compression != kNone && !has_masks))
    data_error("data", "{} is a BMP picture of {} bits with compression {}, which is not read; save it as PNG", file, header.bits,
               compression);
  header.palette = 14 + info + (has_masks && info == 40 ? (compression == kAlphaBitFields ? 16 : 12) : 0);
  header.palette_entry = old ? 3 : 4;
  header.pixels = number_at(bytes, 10, 4);
  return header;
}

/// The bits of a pixel under a mask, stretched to 8.
uint8_t channel_of(uint32_t pixel, uint32_t mask) {
  if (mask == 0) return 0;
  uint64_t value = (pixel & mask) >> std::countr_zero(mask), most = mask >> std::countr_zero(mask);
  return static_cast<uint8_t>((value * 255 + most / 2) / most);
}

using Rgba = std::array<uint8_t, 4>;

std::vector<Rgba> palette_of(const BmpHeader& header, std::string_view bytes) {
  std::vector<Rgba> palette(size_t{1} << header.bits);
  for (size_t i = 0; i < palette.size(); ++i) {
    auto at = header.palette + i * header.palette_entry;
    auto color = at + 3 <= header.pixels ? number_at(bytes, at, 3) : 0;
    palette[i] = {static_cast<uint8_t>(color >> 16), static_cast<uint8_t>(color >> 8), static_cast<uint8_t>(color), 255};
  }
  return palette;
}

Rgba masked_color(const BmpHeader& header, uint32_t pixel) {
  const auto& masks = header.masks;
  uint8_t alpha = masks[3] == 0 ? 255 : channel_of(pixel, masks[3]);
  return {channel_of(pixel, masks[0]), channel_of(pixel, masks[1]), channel_of(pixel, masks[2]), alpha};
}

}  // namespace

// BMP without compression, from 1 to 32 bits a pixel. The layout is that of Windows' BITMAPFILEHEADER and BITMAPINFOHEADER.
Decoded decode_bmp(std::string_view bytes, const std::string& file, bool header_only) {
  const auto header = read_bmp_header(bytes, file);
  check_size(header.size.height, header.size.width, file);
  if (header_only) return {.size = header.size};

  auto width = static_cast<size_t>(header.size.width), height = static_cast<size_t>(header.size.height);
  auto row_bytes = (width * header.bits + 31) / 32 * 4;  // rows are padded to 4 bytes
  if (header.pixels > bytes.size() || bytes.size() - header.pixels < row_bytes * height)
    data_error("data", "{} cannot be decoded: it is truncated", file);
  const auto palette = header.bits <= 8 ? palette_of(header, bytes) : std::vector<Rgba>();
  auto out = undecoded(header.size, header.masks[3] != 0);
  std::vector<Rgba> row(width);
  for (size_t y = 0; y < height; ++y) {
    auto start = header.pixels + y * row_bytes;
    for (size_t x = 0; x < width; ++x) {
      auto bit = x * header.bits;
      if (header.bits <= 8) {
        auto byte = number_at(bytes, start + bit / 8, 1);
        row[x] = palette[byte >> (8 - header.bits - bit % 8) & (palette.size() - 1)];
      } else {
        auto pixel = number_at(bytes, start + bit / 8, header.bits / 8);
        row[x] = header.bits == 24
                     ? Rgba{static_cast<uint8_t>(pixel >> 16), static_cast<uint8_t>(pixel >> 8), static_cast<uint8_t>(pixel), 255}
                     : masked_color(header, pixel);
      }
    }
    put_row(out, static_cast<int64_t>(header.from_top ? y : height - 1 - y), row.front().data());
  }
  return out;
}

}  // namespace burnish::data
