#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "data/codecs.h"

namespace burnish::data {

namespace {

int read_gif(GifFileType* gif, GifByteType* to, int count) {
  auto& bytes = *static_cast<std::string_view*>(gif->UserData);
  auto length = std::min(bytes.size(), static_cast<size_t>(count));
  std::memcpy(to, bytes.data(), length);
  bytes.remove_prefix(length);
  return static_cast<int>(length);
}

void close_gif(GifFileType* gif) {
  int reason = 0;
  DGifCloseFile(gif, &reason);
}

/// The colours of a frame, as RGBA by index; what has no colour is black.
std::vector<std::array<uint8_t, 4>> colors_of(const GifFileType& gif, int transparent) {
  std::vector<std::array<uint8_t, 4>> colors(256, {0, 0, 0, 255});
  const auto* map = gif.Image.ColorMap ? gif.Image.ColorMap : gif.SColorMap;
  for (int i = 0; map != nullptr && i < std::min(map->ColorCount, 256); ++i)
    colors[static_cast<size_t>(i)] = {map->Colors[i].Red, map->Colors[i].Green, map->Colors[i].Blue, 255};
  if (transparent >= 0 && transparent < 256) colors[static_cast<size_t>(transparent)] = {0, 0, 0, 0};
  return colors;
}

/// Reads up to the first frame's header. The index of its transparent colour, or -1; -2 where there is no frame.
int find_frame(GifFileType& gif) {
  int transparent = -1;
  for (GifRecordType record = UNDEFINED_RECORD_TYPE; DGifGetRecordType(&gif, &record) == GIF_OK;) {
    if (record == IMAGE_DESC_RECORD_TYPE) return DGifGetImageDesc(&gif) == GIF_OK ? transparent : -2;
    if (record != EXTENSION_RECORD_TYPE) return -2;
    int code = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(&gif, &code, &block) != GIF_OK) return -2;
    while (block != nullptr) {
      GraphicsControlBlock control{};
      if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
        transparent = control.TransparentColor;
      if (DGifGetExtensionNext(&gif, &block) != GIF_OK) return -2;
    }
  }
  return -2;
}

/// The rows of a picture of that height in the order in which the file has them.
std::vector<int> row_order(int height, bool interlaced) {
  std::vector<int> rows;
  auto add = [&](int first, int step) {
    for (int y = first; y < height; y += step) rows.push_back(y);
  };
  if (!interlaced) add(0, 1);
  else
    for (auto [first, step] : {std::pair(0, 8), {4, 8}, {2, 4}, {1, 2}}) add(first, step);
  return rows;
}

}  // namespace

// GIF: what the first frame leaves free of the picture is transparent.
Decoded decode_gif(std::string_view bytes, const std::string& file, bool header_only) {
  std::unique_ptr<GifFileType, decltype(&close_gif)> gif(DGifOpen(&bytes, read_gif, nullptr), close_gif);
  if (!gif) data_error("data", "{} cannot be decoded: it is truncated or not a GIF picture", file);
  Size size{gif->SHeight, gif->SWidth};
  check_size(size.height, size.width, file);
  if (header_only) return {.size = size};

  auto transparent = find_frame(*gif);
  const auto& frame = gif->Image;
  if (transparent == -2 || frame.Width < 1 || frame.Height < 1)
    data_error("data", "{} cannot be decoded: it is damaged, or holds no frame", file);
  if (frame.Left < 0 || frame.Top < 0 || frame.Left + frame.Width > size.width || frame.Top + frame.Height > size.height)
    data_error("data", "{} cannot be decoded: its first frame lies outside of the picture", file);
  bool whole = frame.Width == size.width && frame.Height == size.height;
  const auto colors = colors_of(*gif, transparent);
  auto out = undecoded(size, transparent >= 0 || !whole);
  std::vector<GifPixelType> indices(static_cast<size_t>(frame.Width));
  std::vector<uint8_t> row_W4(static_cast<size_t>(size.width) * 4);
  if (!whole) {
    for (int64_t y = 0; y < size.height; ++y) put_row(out, y, row_W4.data());
  }
  for (int y : row_order(frame.Height, frame.Interlace)) {
    if (DGifGetLine(gif.get(), indices.data(), frame.Width) != GIF_OK)
      data_error("data", "{} cannot be decoded: its picture data is truncated or damaged", file);
    auto* pixel = row_W4.data() + static_cast<size_t>(frame.Left) * 4;
    for (auto index : indices) pixel = std::ranges::copy(colors[index], pixel).out;
    put_row(out, frame.Top + y, row_W4.data());
  }
  return out;
}

}  // namespace burnish::data
