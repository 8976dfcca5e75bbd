#include <webp/decode.h>
#include <webp/demux.h>
#include <webp/encode.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "base/input_error.h"
#include "data/codecs.h"
#include "data/image.h"

namespace burnish::data {

namespace {

bool decode_opaque(const WebPIterator& frame, Decoded& out) {
  return WebPDecodeRGBInto(frame.fragment.bytes, frame.fragment.size, out.pixels_HW3.mutable_data_ptr<uint8_t>(),
                           static_cast<size_t>(out.pixels_HW3.numel()), static_cast<int>(out.size.width * 3)) != nullptr;
}

/// What the frame leaves free of the picture is transparent.
bool decode_transparent(const WebPIterator& frame, Decoded& out) {
  auto row_bytes = static_cast<size_t>(out.size.width) * 4;
  std::vector<uint8_t> canvas_HW4(row_bytes * static_cast<size_t>(out.size.height));
  auto corner = static_cast<size_t>(frame.y_offset) * row_bytes + static_cast<size_t>(frame.x_offset) * 4;
  if (WebPDecodeRGBAInto(frame.fragment.bytes, frame.fragment.size, canvas_HW4.data() + corner, canvas_HW4.size() - corner,
                         static_cast<int>(row_bytes)) == nullptr)
    return false;
  for (int64_t y = 0; y < out.size.height; ++y) put_row(out, y, canvas_HW4.data() + static_cast<size_t>(y) * row_bytes);
  return true;
}

}  // namespace

Decoded decode_webp(std::string_view bytes, const std::string& file, bool header_only) {
  WebPData data{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)> demux(WebPDemux(&data), WebPDemuxDelete);
  if (!demux) data_error("data", "{} cannot be decoded: it is truncated or not a WebP picture", file);
  Decoded out;
  out.size = {WebPDemuxGetI(demux.get(), WEBP_FF_CANVAS_HEIGHT), WebPDemuxGetI(demux.get(), WEBP_FF_CANVAS_WIDTH)};
  check_size(out.size.height, out.size.width, file);
  WebPChunkIterator chunk;
  if (WebPDemuxGetChunk(demux.get(), "EXIF", 1, &chunk)) {
    out.orientation = exif_orientation({reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size});
    WebPDemuxReleaseChunkIterator(&chunk);
  }
  if (header_only) return out;
  if (WebPDemuxGetChunk(demux.get(), "ICCP", 1, &chunk)) {
    out.icc_profile = {reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size};
    WebPDemuxReleaseChunkIterator(&chunk);
  }

  WebPIterator frame;
  if (!WebPDemuxGetFrame(demux.get(), 1, &frame)) data_error("data", "{} cannot be decoded: it holds no frame", file);
  bool whole = frame.x_offset == 0 && frame.y_offset == 0 && frame.width == out.size.width && frame.height == out.size.height;
  bool fits = frame.x_offset + frame.width <= out.size.width && frame.y_offset + frame.height <= out.size.height;
  auto pixels = undecoded(out.size, frame.has_alpha || !whole);
  out.pixels_HW3 = pixels.pixels_HW3;
  out.alpha_HW1 = pixels.alpha_HW1;
  bool decoded = frame.complete && fits && (out.alpha_HW1.defined() ? decode_transparent(frame, out) : decode_opaque(frame, out));
  WebPDemuxReleaseIterator(&frame);
  if (!decoded) data_error("data", "{} cannot be decoded: its picture data is damaged", file);
  return out;
}

std::string encode_webp(const at::Tensor& pixels_HW3, float quality) {
  auto pixels = pixels_HW3.contiguous();
  auto height = static_cast<int>(pixels.size(0)), width = static_cast<int>(pixels.size(1));
  uint8_t* bytes = nullptr;
  auto size = WebPEncodeRGB(pixels.const_data_ptr<uint8_t>(), width, height, width * 3, quality, &bytes);
  std::unique_ptr<uint8_t, decltype(&WebPFree)> owner(bytes, WebPFree);
  if (size == 0) throw std::runtime_error("libwebp cannot encode a picture");
  return {reinterpret_cast<char*>(bytes), size};
}

}  // namespace burnish::data
