// This is part of the library libburnish_clips.so: the sound of videos as FFmpeg's encoders write it.
#include "data/ffmpeg_track.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace burnish::data {

namespace {

/// An encoder of sound, the container that it is for, and whether a sample of one channel stands beside that of the other.
struct SoundEncoder {
  const char *container, *name;
  AVSampleFormat format;
};
constexpr SoundEncoder kEncoders[] = {
    {"mp4", "aac", AV_SAMPLE_FMT_FLTP},
    {"webm", "libopus", AV_SAMPLE_FMT_FLT},
    {"webm", "libvorbis", AV_SAMPLE_FMT_FLTP},
};
constexpr int64_t kBitsASecond = 192'000, kUsualFrame = 1024;

}  // namespace

SoundTrack::SoundTrack(AVFormatContext* output, const RawSound& sound)
    : output_(output), sound_(sound), num_samples_(std::ssize(sound.samples) / std::max<int64_t>(sound.num_channels, 1)) {
  open_encoder();
  stream_ = avformat_new_stream(output_, nullptr);
  if (stream_ == nullptr) throw std::bad_alloc();
  check(avcodec_parameters_from_context(stream_->codecpar, encoder_.get()));
  stream_->time_base = encoder_->time_base;
}

void SoundTrack::open_encoder() {
  const std::string container = output_->oformat->name;
  const SoundEncoder* found = nullptr;
  for (const auto& encoder : kEncoders) {
    if (found == nullptr && container == encoder.container && avcodec_find_encoder_by_name(encoder.name) != nullptr) found = &encoder;
  }
  if (found == nullptr) throw std::runtime_error("FFmpeg's libraries here have no encoder of sound for " + container);
  const auto* codec = avcodec_find_encoder_by_name(found->name);
  encoder_.reset(avcodec_alloc_context3(codec));
  encoder_->sample_fmt = found->format;
  encoder_->sample_rate = static_cast<int>(sound_.rate);
  encoder_->bit_rate = kBitsASecond;
  encoder_->time_base = {1, encoder_->sample_rate};
  av_channel_layout_default(&encoder_->ch_layout, static_cast<int>(sound_.num_channels));
  encoder_->flags |= AV_CODEC_FLAG_BITEXACT;
  if (output_->oformat->flags & AVFMT_GLOBALHEADER) encoder_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  check(avcodec_open2(encoder_.get(), codec, nullptr));
}

void SoundTrack::encode_until(double seconds) {
  const auto in_frame = encoder_->frame_size > 0 ? encoder_->frame_size : kUsualFrame;
  const auto end = std::min(static_cast<int64_t>(seconds * static_cast<double>(sound_.rate)), num_samples_);
  while (num_done_ + in_frame <= end) encode_next(in_frame);
}

void SoundTrack::encode_next(int64_t count) {
  av_frame_unref(frame_.get());
  frame_->format = encoder_->sample_fmt;
  frame_->sample_rate = encoder_->sample_rate;
  frame_->nb_samples = static_cast<int>(count);
  check(av_channel_layout_copy(&frame_->ch_layout, &encoder_->ch_layout));
  check(av_frame_get_buffer(frame_.get(), 0));
  const bool is_planar = av_sample_fmt_is_planar(encoder_->sample_fmt) != 0;
  for (int64_t channel = 0; channel < sound_.num_channels; ++channel) {
    const auto* from = sound_.samples.data() + channel * num_samples_ + num_done_;
    auto* to = reinterpret_cast<float*>(frame_->extended_data[is_planar ? channel : 0]);
    for (int64_t i = 0; i < count; ++i) to[is_planar ? i : i * sound_.num_channels + channel] = from[i];
  }
  frame_->pts = num_done_;
  num_done_ += count;
  send(frame_.get());
}

void SoundTrack::send(const AVFrame* frame) {
  check(avcodec_send_frame(encoder_.get(), frame));
  while (true) {
    const auto received = avcodec_receive_packet(encoder_.get(), packet_.get());
    if (received == AVERROR(EAGAIN) || received == AVERROR_EOF) return;
    check(received);
    packet_->stream_index = stream_->index;
    av_packet_rescale_ts(packet_.get(), encoder_->time_base, stream_->time_base);
    check(av_interleaved_write_frame(output_, packet_.get()));
  }
}

void SoundTrack::finish() {
  encode_until(static_cast<double>(num_samples_) / static_cast<double>(sound_.rate));
  if (num_done_ < num_samples_) encode_next(num_samples_ - num_done_);
  send(nullptr);
}

}  // namespace burnish::data
