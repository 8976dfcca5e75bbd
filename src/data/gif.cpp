#include "base/input_error.h"
#include "data/codecs.h"
#include "data/gif_file.h"

namespace burnish::data {

namespace {

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

/// Reads over the pixels of a frame whose header was read.
bool skip_pixels(GifFileType& gif) {
  int code_size = 0;
  GifByteType* block = nullptr;
  if (DGifGetCode(&gif, &code_size, &block) != GIF_OK) return false;
  while (block != nullptr)
    if (DGifGetCodeNext(&gif, &block) != GIF_OK) return false;
  return true;
}

}  // namespace

bool is_animated_gif(std::string_view bytes) {
  const auto gif = open_gif(bytes);
  return gif && find_frame(*gif) != -2 && skip_pixels(*gif) && find_frame(*gif) != -2;
}

// GIF: what the first frame leaves free of the picture is transparent.
Decoded decode_gif(std::string_view bytes, const std::string& file, bool header_only) {
  auto gif = open_gif(bytes);
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
