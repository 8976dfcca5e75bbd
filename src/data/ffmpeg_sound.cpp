// Of the library libburnish_clips.so: the sound of a file, by the clock of its frames.
extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/opt.h>
#include <libswresample/swresample.h>
}

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>

#include "data/ffmpeg_input.h"
#include "data/raw_sound.h"

namespace burnish::data {

namespace {

/// Most samples of a channel that are read: 93 minutes at 48 kHz, 1 GiB.
constexpr int64_t kMostSamples = int64_t{1} << 28;

class FfmpegSound {
 public:
  FfmpegSound(const char* file, std::string_view bytes, AVStream* stream, AVFormatContext* input)
      : input_(input), stream_(stream), decoder_(open_decoder(input, stream)), begin_(first_shown(file, bytes)) {}

  RawSound decode(const SoundWindow& window) {
    while (read_frame()) {
      if (!take(window)) break;
    }
    finish();
    return std::move(sound_);
  }

 private:
  bool read_frame();
  bool take(const SoundWindow& window);
  void begin(const SoundWindow& window);
  void finish();
  void put(int64_t at, int64_t count);

  AVFormatContext* input_;
  AVStream* stream_;
  Codec decoder_;
  std::optional<Fraction> begin_;  ///< when the first frame is shown, by the container's clock
  Frame frame_{av_frame_alloc()};
  Packet packet_{av_packet_alloc()};
  std::unique_ptr<SwrContext, Freed<swr_free>> converter_;
  RawSound sound_;
  struct {
    std::vector<std::vector<float>> window, frame;  ///< a list a channel
  } samples_;
  struct {
    int64_t offset = 0;    ///< the window's first sample, counted from time 0 of the container
    int64_t length = 0;    ///< samples of the window; -1: up to the end
    int64_t expected = 0;  ///< where the next sample lies that follows the last one
  } place_;
  bool is_drained_ = false;
};

bool FfmpegSound::read_frame() {
  while (true) {
    auto received = avcodec_receive_frame(decoder_.get(), frame_.get());
    if (received >= 0) return true;
    if (received == AVERROR(ENOMEM)) check(received);
    if (received == AVERROR_EOF || is_drained_) return false;
    if (av_read_frame(input_, packet_.get()) < 0) {
      avcodec_send_packet(decoder_.get(), nullptr);
      is_drained_ = true;
      continue;
    }
    auto sent = packet_->stream_index == stream_->index ? avcodec_send_packet(decoder_.get(), packet_.get()) : 0;
    av_packet_unref(packet_.get());
    if (sent == AVERROR(ENOMEM)) check(sent);
  }
}

/// Sees by the first frame what the sound is like and where the window lies.
void FfmpegSound::begin(const SoundWindow& window) {
  sound_.rate = frame_->sample_rate;
  sound_.num_channels = frame_->ch_layout.nb_channels == 1 ? 1 : 2;
  if (sound_.rate < 1 || frame_->ch_layout.nb_channels < 1) throw std::runtime_error("its sound has no rate that is read");
  AVChannelLayout layout;
  av_channel_layout_default(&layout, static_cast<int>(sound_.num_channels));
  auto from = frame_->ch_layout;
  if (from.order == AV_CHANNEL_ORDER_UNSPEC) av_channel_layout_default(&from, from.nb_channels);
  SwrContext* converter = nullptr;
  check(swr_alloc_set_opts2(&converter, &layout, AV_SAMPLE_FMT_FLTP, frame_->sample_rate, &from,
                            static_cast<AVSampleFormat>(frame_->format), frame_->sample_rate, 0, nullptr));
  converter_.reset(converter);
  check(swr_init(converter));
  samples_.window.resize(static_cast<size_t>(sound_.num_channels));
  samples_.frame.resize(samples_.window.size());
  auto samples_of = [&](const Fraction& time) { return av_rescale(time.num, sound_.rate, time.den); };
  const AVRational sample{1, frame_->sample_rate};
  auto pts = frame_->best_effort_timestamp;
  place_.expected = pts == AV_NOPTS_VALUE ? 0 : av_rescale_q(pts, stream_->time_base, sample);
  place_.offset = (begin_ ? samples_of(*begin_) : place_.expected) + samples_of(window.start);
  place_.length = window.length.num == 0 ? -1 : samples_of(window.length);
  if (place_.length > kMostSamples) throw std::runtime_error("more of its sound is asked for than is read");
}

/// Puts `count` converted samples at their place, as far as that is in the window.
void FfmpegSound::put(int64_t at, int64_t count) {
  auto first = std::max<int64_t>(0, -at), last = place_.length < 0 ? count : std::min(count, place_.length - at);
  if (first >= last) return;
  const auto end = static_cast<size_t>(at + last);
  if (at + last > kMostSamples) throw std::runtime_error("it holds more sound than is read");
  for (size_t c = 0; c < samples_.window.size(); ++c) {
    if (samples_.window[c].size() < end) samples_.window[c].resize(end);
    std::copy(samples_.frame[c].begin() + first, samples_.frame[c].begin() + last, samples_.window[c].begin() + (at + first));
  }
}

/// Takes the frame; false where the window ends before it. Containers round times, to milliseconds some of them: a frame follows the last
/// one unless it is half a frame or more off that place.
bool FfmpegSound::take(const SoundWindow& window) {
  if (!converter_) begin(window);
  if (frame_->sample_rate != sound_.rate) throw std::runtime_error("the rate of its sound changes");
  const int count = frame_->nb_samples;
  uint8_t* planes[2] = {};
  for (size_t c = 0; c < samples_.frame.size(); ++c) {
    samples_.frame[c].resize(static_cast<size_t>(count));
    planes[c] = reinterpret_cast<uint8_t*>(samples_.frame[c].data());
  }
  check(swr_convert(converter_.get(), planes, count, const_cast<const uint8_t**>(frame_->extended_data), count));
  if (auto pts = frame_->best_effort_timestamp; pts != AV_NOPTS_VALUE) {
    auto told = av_rescale_q(pts, stream_->time_base, {1, frame_->sample_rate});
    if (2 * std::abs(told - place_.expected) > count) place_.expected = told;
  }
  auto at = place_.expected - place_.offset;
  put(at, count);
  place_.expected += count;
  return place_.length < 0 || at + count < place_.length;
}

void FfmpegSound::finish() {
  if (!converter_) throw std::runtime_error("none of its sound can be decoded");
  auto length = place_.length < 0 ? (samples_.window.empty() ? 0 : samples_.window[0].size()) : static_cast<size_t>(place_.length);
  for (auto& channel : samples_.window) {
    channel.resize(length);
    sound_.samples.insert(sound_.samples.end(), channel.begin(), channel.end());
  }
}

RawSound decode_sound(const char* file, std::string_view bytes, const SoundWindow& window) {
  Input input(file, bytes);
  auto index = av_find_best_stream(input.get(), AVMEDIA_TYPE_AUDIO, -1, -1, nullptr, 0);
  if (index < 0) return {};
  return FfmpegSound(file, bytes, input.get()->streams[index], input.get()).decode(window);
}

}  // namespace

}  // namespace burnish::data

extern "C" burnish::data::RawSound burnish_decode_sound(const char* file, std::string_view bytes,
                                                        const burnish::data::SoundWindow& window) {
  return burnish::data::decode_sound(file, bytes, window);
}
