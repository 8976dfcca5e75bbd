#pragma once
#include "data/clip_frames.h"
#include "data/ffmpeg_input.h"

namespace burnish::data {

/// A track of sound beside the frames of a video, which is encoded as far as the frames have come.
class SoundTrack {
 public:
  /// Adds the track to a file whose header is not written yet. Throws std::runtime_error where there is no encoder of sound for it.
  SoundTrack(AVFormatContext* output, const RawSound& sound);
  /// Encodes what is heard up to a time in seconds.
  void encode_until(double seconds);
  /// Encodes the rest.
  void finish();

 private:
  void open_encoder();
  void encode_next(int64_t count);
  void send(const AVFrame* frame);

  AVFormatContext* output_;
  const RawSound& sound_;
  AVStream* stream_ = nullptr;
  Codec encoder_;
  Frame frame_{av_frame_alloc()};
  Packet packet_{av_packet_alloc()};
  int64_t num_samples_ = 0, num_done_ = 0;  ///< of each channel
};

}  // namespace burnish::data
