// The library libburnish_clips.so: clips by FFmpeg's libraries. It is opened when the first clip comes (data/clip.cpp), so that the program
// itself needs none of them.
extern "C" {
#include <libavutil/display.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "data/clip_frames.h"
#include "data/ffmpeg_colors.h"
#include "data/ffmpeg_input.h"
#include "data/over_white.h"

namespace burnish::data {

namespace {

/// Most pixels that a frame may have, as pictures (data/codecs.h).
constexpr int64_t kMostPixels = int64_t{1} << 28;

struct FreedScaler {
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
};

/// The stream of frames: not the cover of a sound file, which is one too.
AVStream* look_for_stream(AVFormatContext* input) {
  auto index = av_find_best_stream(input, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  return index < 0 || input->streams[index]->disposition & AV_DISPOSITION_ATTACHED_PIC ? nullptr : input->streams[index];
}

AVStream* find_stream(AVFormatContext* input) {
  auto* stream = look_for_stream(input);
  if (stream == nullptr) throw std::runtime_error("it holds no video");
  return stream;
}

/// Full-range formats of their own names, as the ones that they are but for the range.
AVPixelFormat without_range(AVPixelFormat format) {
  switch (format) {
    case AV_PIX_FMT_YUVJ420P: return AV_PIX_FMT_YUV420P;
    case AV_PIX_FMT_YUVJ422P: return AV_PIX_FMT_YUV422P;
    case AV_PIX_FMT_YUVJ444P: return AV_PIX_FMT_YUV444P;
    case AV_PIX_FMT_YUVJ440P: return AV_PIX_FMT_YUV440P;
    default: return format;
  }
}

int colors_of(const AVFrame& frame) {
  if (frame.colorspace == AVCOL_SPC_BT2020_NCL || frame.colorspace == AVCOL_SPC_BT2020_CL) return SWS_CS_BT2020;
  if (frame.colorspace != AVCOL_SPC_UNSPECIFIED && frame.colorspace != AVCOL_SPC_RGB) return frame.colorspace;
  return frame.height < 720 ? SWS_CS_ITU601 : SWS_CS_ITU709;
}

bool has_alpha(const AVFrame& frame) {
  const auto* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
  return format != nullptr && (format->flags & AV_PIX_FMT_FLAG_ALPHA) != 0;
}

class FfmpegFrames : public ClipFrames {
 public:
  FfmpegFrames(const char* file, std::string_view bytes)
      : input_(file, bytes), stream_(find_stream(input_.get())), decoder_(open_decoder(input_.get(), stream_)) {
    read_turn();
    if (decode_ahead()) clock_.first = clock_.ahead;
    else throw std::runtime_error("none of its frames can be decoded");
    find_size(*ahead_);
  }

  bool next() override {
    if (state_.is_done) return false;
    std::swap(current_, ahead_);
    auto shown = clock_.ahead;
    if (decode_ahead()) {
      clock_.ahead = std::max(clock_.ahead, shown + 1);
      clock_.end = clock_.ahead;
    } else {
      state_.is_done = true;
      clock_.end = shown + std::max<int64_t>(clock_.last_duration, 1);
    }
    return true;
  }
  bool skip_to(const Fraction& time) override;
  Fraction tick() const override { return {stream_->time_base.num, stream_->time_base.den}; }
  int64_t end() const override { return clock_.end - clock_.first; }
  int64_t height() const override { return shape_.height; }
  int64_t width() const override { return shape_.width; }
  int quarter_turns() const override { return shape_.turns; }
  bool is_mirrored() const override { return shape_.is_mirrored; }
  void write_pixels(uint8_t* to_HW3) override;
  void write_alpha(uint8_t* to_HW) override;
  bool is_interlaced() const override { return state_.is_interlaced; }
  std::string damage() const override;
  Fraction first_shown() const { return {clock_.first * stream_->time_base.num, stream_->time_base.den}; }

 private:
  void read_turn();
  void find_size(const AVFrame& frame);
  bool decode_ahead();
  void send_packet();
  void take_ahead();
  void convert(AVPixelFormat to, int num_channels);
  bool is_yuv420() const;
  void convert_yuv420(uint8_t* to_HW3);

  Input input_;
  AVStream* stream_;
  Codec decoder_;
  Frame current_{av_frame_alloc()}, ahead_{av_frame_alloc()};
  Packet packet_{av_packet_alloc()};
  std::unique_ptr<SwsContext, FreedScaler> scaler_;
  struct {
    std::vector<uint8_t> rows;
    int stride = 0;
  } converted_;  ///< the current frame, in the last format that was asked for
  Yuv420ToRgb yuv420_;
  /// Times in ticks of the stream's clock.
  struct {
    int64_t first = 0, ahead = 0, last_duration = 0, end = 0;
    int64_t key = AV_NOPTS_VALUE;  // of the frame that was skipped to, before which none is shown
  } clock_;
  struct {
    int64_t height = 0, width = 0;
    int turns = 0;
    bool is_mirrored = false;
  } shape_;
  struct {
    bool is_done = false, is_drained = false;
    int read_error = 0;
    int64_t num_damaged = 0;
    bool is_interlaced = false;
    bool awaits_key = false;  // after a skip, until a frame comes that needs none before it
  } state_;
};

/// The display matrix says how a frame is turned; one with a negative determinant mirrors it.
void FfmpegFrames::read_turn() {
  const auto* matrix = reinterpret_cast<const int32_t*>(av_stream_get_side_data(stream_, AV_PKT_DATA_DISPLAYMATRIX, nullptr));
  if (matrix == nullptr) return;
  int32_t own[9];
  std::copy(matrix, matrix + 9, own);
  shape_.is_mirrored = static_cast<int64_t>(own[0]) * own[4] - static_cast<int64_t>(own[1]) * own[3] < 0;
  if (shape_.is_mirrored) av_display_matrix_flip(own, 1, 0);
  auto angle = av_display_rotation_get(own);
  if (std::isfinite(angle)) shape_.turns = (static_cast<int>(std::lround(angle / 90)) % 4 + 4) % 4;
}

void FfmpegFrames::find_size(const AVFrame& frame) {
  if (frame.color_trc == AVCOL_TRC_SMPTE2084 || frame.color_trc == AVCOL_TRC_ARIB_STD_B67)
    throw std::runtime_error(
        "it is an HDR clip (PQ or HLG), whose colours would come out wrong; convert it to SDR: ffmpeg -i HDR -vf "
        "zscale=t=linear:npl=100,format=gbrpf32le,zscale=p=bt709,tonemap=hable,zscale=t=bt709:m=bt709:r=tv,format=yuv420p SDR.mp4");
  auto aspect = av_guess_sample_aspect_ratio(input_.get(), stream_, const_cast<AVFrame*>(&frame));
  shape_.height = frame.height;
  shape_.width = aspect.num > 0 && aspect.den > 0 ? std::max<int64_t>(1, av_rescale(frame.width, aspect.num, aspect.den)) : frame.width;
  if (shape_.height < 1 || shape_.width < 1 || shape_.height > kMostPixels / shape_.width)
    throw std::runtime_error("its frames have no size that is read");
}

void FfmpegFrames::send_packet() {
  while (true) {
    auto read = av_read_frame(input_.get(), packet_.get());
    if (read < 0) {
      if (read != AVERROR_EOF) state_.read_error = read;
      if (input_.get()->pb && input_.get()->pb->error < 0) state_.read_error = input_.get()->pb->error;
      avcodec_send_packet(decoder_.get(), nullptr);
      state_.is_drained = true;
      return;
    }
    bool is_ours = packet_->stream_index == stream_->index;
    if (is_ours && state_.awaits_key) {
      state_.awaits_key = (packet_->flags & AV_PKT_FLAG_KEY) == 0;
      clock_.key = packet_->pts;
      is_ours = !state_.awaits_key;
    }
    if (is_ours) {
      auto sent = avcodec_send_packet(decoder_.get(), packet_.get());
      if (sent == AVERROR(ENOMEM)) check(sent);
      state_.num_damaged += sent < 0 || (packet_->flags & AV_PKT_FLAG_CORRUPT) != 0;
    }
    av_packet_unref(packet_.get());
    if (is_ours) return;
  }
}

/// Counts what is wrong with the frame ahead, and finds when it is shown.
void FfmpegFrames::take_ahead() {
  state_.num_damaged += ahead_->decode_error_flags != 0 || (ahead_->flags & AV_FRAME_FLAG_CORRUPT) != 0;
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 7, 100)
  state_.is_interlaced = state_.is_interlaced || (ahead_->flags & AV_FRAME_FLAG_INTERLACED) != 0;
#else
  state_.is_interlaced = state_.is_interlaced || ahead_->interlaced_frame != 0;
#endif
#if LIBAVUTIL_VERSION_MAJOR >= 58
  auto duration = ahead_->duration;
#else
  auto duration = ahead_->pkt_duration;
#endif
  auto usual = stream_->avg_frame_rate.num > 0 ? av_rescale_q(1, av_inv_q(stream_->avg_frame_rate), stream_->time_base) : 1;
  auto pts = ahead_->best_effort_timestamp;
  clock_.ahead = pts == AV_NOPTS_VALUE ? clock_.ahead + clock_.last_duration : pts;
  clock_.last_duration = duration > 0 ? duration : usual;
}

bool FfmpegFrames::decode_ahead() {
  while (true) {
    av_frame_unref(ahead_.get());
    auto received = avcodec_receive_frame(decoder_.get(), ahead_.get());
    if (received >= 0) {
      take_ahead();
      // Those of an open group are predicted from frames that were skipped.
      if (clock_.key != AV_NOPTS_VALUE && clock_.ahead < clock_.key) continue;
      return true;
    }
    if (received == AVERROR(ENOMEM)) check(received);
    if (received == AVERROR_EOF || (state_.is_drained && received != AVERROR(EAGAIN))) return false;
    if (received != AVERROR(EAGAIN)) ++state_.num_damaged;
    if (state_.is_drained) return false;
    send_packet();
  }
}

// A container's index is by the times at which frames are decoded, which are up to a few frames before they are shown.
bool FfmpegFrames::skip_to(const Fraction& time) {
  const auto wanted = clock_.first + av_rescale(time.num, stream_->time_base.den, time.den * stream_->time_base.num);
  const auto second = av_rescale_q(1, {1, 1}, stream_->time_base);
  if (wanted - second <= clock_.ahead + 2 * second) return true;  // decoding goes there as fast
  if (av_seek_frame(input_.get(), stream_->index, wanted - second, AVSEEK_FLAG_BACKWARD) < 0) return false;
  avcodec_flush_buffers(decoder_.get());
  state_ = {.awaits_key = true};
  return decode_ahead() && clock_.key != AV_NOPTS_VALUE && clock_.ahead <= wanted;
}

// Without the colours' own coefficients every clip would be taken for BT.601, and without the accurate flags sharp red loses 2 of 255.
void FfmpegFrames::convert(AVPixelFormat to, int num_channels) {
  auto& frame = *current_;
  auto format = static_cast<AVPixelFormat>(frame.format);
  auto plain = without_range(format);
  int full = plain != format || frame.color_range == AVCOL_RANGE_JPEG;
  constexpr int kHow = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_BITEXACT;
  auto height = static_cast<int>(shape_.height), width = static_cast<int>(shape_.width);
  scaler_.reset(
      sws_getCachedContext(scaler_.release(), frame.width, frame.height, plain, width, height, to, kHow, nullptr, nullptr, nullptr));
  if (!scaler_) throw std::runtime_error("its pixels are in a format that is not read");
  constexpr int kOne = 1 << 16;
  sws_setColorspaceDetails(scaler_.get(), sws_getCoefficients(colors_of(frame)), full, sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, kOne,
                           kOne);
  // swscale writes whole vectors, behind the end of a row too.
  converted_.stride = (width * num_channels + 63) / 64 * 64;
  converted_.rows.resize(static_cast<size_t>(converted_.stride) * static_cast<size_t>(height) + 64);
  uint8_t* planes[4] = {converted_.rows.data()};
  const int strides[4] = {converted_.stride};
  check(sws_scale(scaler_.get(), frame.data, frame.linesize, 0, frame.height, planes, strides));
}

/// Whether the frame is what most are: of square pixels, in eight bits, with U and V at half of the sides.
bool FfmpegFrames::is_yuv420() const {
  const auto& frame = *current_;
  return without_range(static_cast<AVPixelFormat>(frame.format)) == AV_PIX_FMT_YUV420P && frame.width == shape_.width &&
         Yuv420ToRgb::takes(frame.height, frame.width);
}

void FfmpegFrames::convert_yuv420(uint8_t* to_HW3) {
  const auto& frame = *current_;
  const bool is_full = frame.format == AV_PIX_FMT_YUVJ420P || frame.color_range == AVCOL_RANGE_JPEG;
  const auto* factors = sws_getCoefficients(colors_of(frame));
  yuv420_.convert(
      {{frame.data[0], frame.data[1], frame.data[2]}, {frame.linesize[0], frame.linesize[1], frame.linesize[2]}, frame.height, frame.width},
      {factors[0], factors[1], -factors[2], -factors[3], is_full}, to_HW3);
}

void FfmpegFrames::write_pixels(uint8_t* to_HW3) {
  const bool is_opaque = !has_alpha(*current_);
  if (is_yuv420()) return convert_yuv420(to_HW3);
  convert(is_opaque ? AV_PIX_FMT_RGB24 : AV_PIX_FMT_RGBA, is_opaque ? 3 : 4);
  for (int64_t y = 0; y < shape_.height; ++y, to_HW3 += shape_.width * 3) {
    const auto* row = converted_.rows.data() + y * converted_.stride;
    if (is_opaque) std::memcpy(to_HW3, row, static_cast<size_t>(shape_.width) * 3);
    else write_over_white(row, shape_.width, to_HW3);
  }
}

void FfmpegFrames::write_alpha(uint8_t* to_HW) {
  if (!has_alpha(*current_)) return ClipFrames::write_alpha(to_HW);
  convert(AV_PIX_FMT_RGBA, 4);
  for (int64_t y = 0; y < shape_.height; ++y, to_HW += shape_.width)
    write_opacity(converted_.rows.data() + y * converted_.stride, shape_.width, to_HW);
}

std::string FfmpegFrames::damage() const {
  if (state_.read_error < 0) return text_of(state_.read_error);
  if (state_.num_damaged > 0) return std::to_string(state_.num_damaged) + " of its packets or frames are damaged";
  // What a container says of its duration is never exact; one that is cut off lacks more.
  if (stream_->duration == AV_NOPTS_VALUE || stream_->duration <= 0) return "";
  auto lacking = stream_->duration - end();
  auto second = av_rescale_q(1, {1, 1}, stream_->time_base);
  return lacking > stream_->duration / 10 && lacking > second / 5 ? "it ends before its header says" : "";
}

}  // namespace

std::optional<Fraction> first_shown(const char* file, std::string_view bytes) {
  if (Input input(file, bytes); look_for_stream(input.get()) == nullptr) return std::nullopt;
  return FfmpegFrames(file, bytes).first_shown();
}

}  // namespace burnish::data

extern "C" burnish::data::ClipFrames* burnish_open_clip(const char* file, std::string_view bytes) {
  return new burnish::data::FfmpegFrames(file, bytes);
}
