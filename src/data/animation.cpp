#include "data/animation.h"

#include <webp/demux.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "data/codecs.h"
#include "data/gif_file.h"
#include "data/over_white.h"

namespace burnish::data {

namespace {

class WebpFrames : public ClipFrames {
 public:
  WebpFrames(std::string_view bytes, const std::string& file) {
    WebPData data{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
    WebPAnimDecoderOptions options;
    WebPAnimDecoderOptionsInit(&options);
    options.color_mode = MODE_RGBA;
    decoder_.reset(WebPAnimDecoderNew(&data, &options));
    if (!decoder_ || !WebPAnimDecoderGetInfo(decoder_.get(), &info_)) throw std::runtime_error("it is truncated or not a WebP picture");
    check_size(info_.canvas_height, info_.canvas_width, file);
  }
  bool next() override {
    if (!WebPAnimDecoderHasMoreFrames(decoder_.get())) return false;
    int end_ms = 0;
    if (!WebPAnimDecoderGetNext(decoder_.get(), &canvas_HW4_, &end_ms)) throw std::runtime_error("one of its frames is damaged");
    end_ = std::max<int64_t>(end_ms, end_ + 1);
    return true;
  }
  Fraction tick() const override { return {1, 1000}; }
  int64_t end() const override { return end_; }
  int64_t height() const override { return info_.canvas_height; }
  int64_t width() const override { return info_.canvas_width; }
  void write_pixels(uint8_t* to_HW3) override { write_over_white(canvas_HW4_, height() * width(), to_HW3); }
  void write_alpha(uint8_t* to_HW) override { write_opacity(canvas_HW4_, height() * width(), to_HW); }

 private:
  std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)> decoder_{nullptr, WebPAnimDecoderDelete};
  WebPAnimInfo info_{};
  uint8_t* canvas_HW4_ = nullptr;
  int64_t end_ = 0;
};

/// A frame is drawn over what was there before it, once that is disposed of as the frame before asks.
class GifFrames : public ClipFrames {
 public:
  GifFrames(std::string_view bytes, const std::string& file) : bytes_(bytes), gif_(open_gif(bytes_)) {
    if (!gif_) throw std::runtime_error("it is truncated or not a GIF picture");
    check_size(height(), width(), file);
    canvas_HW4_.resize(static_cast<size_t>(height() * width() * 4));
  }
  bool next() override {
    if (!find_frame()) return false;
    dispose();
    draw();
    // Browsers show a frame that names no time, or 1/100 s, for a tenth of a second.
    end_ += control_.DelayTime > 1 ? control_.DelayTime : 10;
    return true;
  }
  Fraction tick() const override { return {1, 100}; }
  int64_t end() const override { return end_; }
  int64_t height() const override { return gif_->SHeight; }
  int64_t width() const override { return gif_->SWidth; }
  void write_pixels(uint8_t* to_HW3) override { write_over_white(canvas_HW4_.data(), height() * width(), to_HW3); }
  void write_alpha(uint8_t* to_HW) override { write_opacity(canvas_HW4_.data(), height() * width(), to_HW); }

 private:
  struct Box {
    int left = 0, top = 0, width = 0, height = 0;
  };

  static void check(int result) {
    if (result != GIF_OK) throw std::runtime_error("it is truncated or damaged");
  }
  bool find_frame();
  void dispose();
  void draw();
  uint8_t* at(int x, int y) {
    return canvas_HW4_.data() + (static_cast<size_t>(y) * static_cast<size_t>(width()) + static_cast<size_t>(x)) * 4;
  }

  std::string_view bytes_;
  GifFile gif_;
  std::vector<uint8_t> canvas_HW4_, before_HW4_;
  GraphicsControlBlock control_{};
  Box last_;
  int disposal_ = DISPOSE_DO_NOT;
  int64_t end_ = 0;
};

/// Reads up to the next frame's header, with the control block in front of it; false at the end.
bool GifFrames::find_frame() {
  control_ = {.DisposalMode = DISPOSE_DO_NOT, .UserInputFlag = false, .DelayTime = 0, .TransparentColor = NO_TRANSPARENT_COLOR};
  while (true) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    check(DGifGetRecordType(gif_.get(), &record));
    if (record == TERMINATE_RECORD_TYPE) return false;
    if (record == IMAGE_DESC_RECORD_TYPE) {
      check(DGifGetImageHeader(gif_.get()));
      return true;
    }
    int code = 0;
    GifByteType* block = nullptr;
    check(DGifGetExtension(gif_.get(), &code, &block));
    while (block != nullptr) {
      if (code == GRAPHICS_EXT_FUNC_CODE) DGifExtensionToGCB(block[0], block + 1, &control_);
      check(DGifGetExtensionNext(gif_.get(), &block));
    }
  }
}

void GifFrames::dispose() {
  if (disposal_ == DISPOSE_BACKGROUND) {
    for (int y = last_.top; y < last_.top + last_.height; ++y) std::fill_n(at(last_.left, y), last_.width * 4, uint8_t{0});
  } else if (disposal_ == DISPOSE_PREVIOUS) {
    canvas_HW4_ = before_HW4_;
  }
  if (control_.DisposalMode == DISPOSE_PREVIOUS) before_HW4_ = canvas_HW4_;
  disposal_ = control_.DisposalMode;
}

void GifFrames::draw() {
  const auto& image = gif_->Image;
  last_ = {image.Left, image.Top, image.Width, image.Height};
  bool fits = last_.left >= 0 && last_.top >= 0 && last_.width > 0 && last_.height > 0 && last_.left + last_.width <= width() &&
              last_.top + last_.height <= height();
  if (!fits) throw std::runtime_error("one of its frames lies outside of the picture");
  const auto colors = colors_of(*gif_, NO_TRANSPARENT_COLOR);
  std::vector<GifPixelType> indices(static_cast<size_t>(last_.width));
  for (int y : row_order(last_.height, image.Interlace)) {
    check(DGifGetLine(gif_.get(), indices.data(), last_.width));
    auto* pixel = at(last_.left, last_.top + y);
    for (auto index : indices) {
      if (index != control_.TransparentColor) std::ranges::copy(colors[index], pixel);
      pixel += 4;
    }
  }
}

}  // namespace

std::unique_ptr<ClipFrames> open_animation(std::string_view bytes, const std::string& file) {
  if (bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a")) return std::make_unique<GifFrames>(bytes, file);
  bool is_webp = bytes.size() >= 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WEBP";
  if (is_webp) return std::make_unique<WebpFrames>(bytes, file);
  return nullptr;
}

bool is_animation(std::string_view bytes) {
  if (is_animated_gif(bytes)) return true;
  const WebPData data{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  const std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)> webp(WebPDemux(&data), WebPDemuxDelete);
  return webp && WebPDemuxGetI(webp.get(), WEBP_FF_FRAME_COUNT) > 1;
}

}  // namespace burnish::data
