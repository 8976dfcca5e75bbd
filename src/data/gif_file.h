#pragma once
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

// Inside of the data room: what the readers of a GIF's first frame and of all its frames share.
namespace burnish::data {

struct CloseGif {
  void operator()(GifFileType* gif) const {
    int reason = 0;
    DGifCloseFile(gif, &reason);
  }
};
using GifFile = std::unique_ptr<GifFileType, CloseGif>;

/// Opens a file that reads on in `bytes`, which must outlive it; null where it is truncated or not a GIF picture.
inline GifFile open_gif(std::string_view& bytes) {
  auto read = [](GifFileType* gif, GifByteType* to, int count) {
    auto& rest = *static_cast<std::string_view*>(gif->UserData);
    auto length = std::min(rest.size(), static_cast<size_t>(count));
    std::memcpy(to, rest.data(), length);
    rest.remove_prefix(length);
    return static_cast<int>(length);
  };
  return GifFile(DGifOpen(&bytes, read, nullptr));
}

/// Tells whether there is a second frame; its pixels are not decoded.
bool is_animated_gif(std::string_view bytes);

/// The colours of a frame, as RGBA by index; what has no colour is black.
inline std::vector<std::array<uint8_t, 4>> colors_of(const GifFileType& gif, int transparent) {
  std::vector<std::array<uint8_t, 4>> colors(256, {0, 0, 0, 255});
  const auto* map = gif.Image.ColorMap ? gif.Image.ColorMap : gif.SColorMap;
  for (int i = 0; map != nullptr && i < std::min(map->ColorCount, 256); ++i)
    colors[static_cast<size_t>(i)] = {map->Colors[i].Red, map->Colors[i].Green, map->Colors[i].Blue, 255};
  if (transparent >= 0 && transparent < 256) colors[static_cast<size_t>(transparent)] = {0, 0, 0, 0};
  return colors;
}

/// The rows of a frame of that height in the order in which the file has them.
inline std::vector<int> row_order(int height, bool interlaced) {
  std::vector<int> rows;
  auto add = [&](int first, int step) {
    for (int y = first; y < height; y += step) rows.push_back(y);
  };
  if (!interlaced) add(0, 1);
  else
    for (auto [first, step] : {std::pair(0, 8), {4, 8}, {2, 4}, {1, 2}}) add(first, step);
  return rows;
}

}  // namespace burnish::data
