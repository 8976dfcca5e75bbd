// Of the library libburnish_clips.so: videos as FFmpeg's encoders write them.
extern "C" {
#include <libavutil/opt.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "data/clip_frames.h"
#include "data/ffmpeg_input.h"
#include "data/ffmpeg_track.h"

namespace burnish::data {

namespace {

/// What encoders are told, each in its own words: quality that is hardly told from what was drawn.
constexpr std::pair<std::string_view, const char*> kSettings[] = {
    {"libx264", "crf=17:preset=medium"},
    {"libvpx-vp9", "crf=18:b=0:deadline=good:cpu-used=3:row-mt=1"},
    {"libopenh264", "rc_mode=quality:b=20000000"},
    {"mpeg4", "flags=+qscale:global_quality=236"},  // 2, times FF_QP2LAMBDA
};

/// A file in memory that is written, and read meanwhile by a container that moves its index to the front.
struct Written {
  std::string bytes;
  int64_t write_at = 0, read_at = 0;
};

int write_bytes(void* opaque, uint8_t* from, int count) {
  auto& file = *static_cast<Written*>(opaque);
  auto end = static_cast<size_t>(file.write_at) + static_cast<size_t>(count);
  if (end > file.bytes.size()) file.bytes.resize(end);
  std::memcpy(file.bytes.data() + file.write_at, from, static_cast<size_t>(count));
  file.write_at += count;
  return count;
}

/// A place beyond the end is one that is written next.
int64_t seek_write(void* opaque, int64_t offset, int whence) {
  auto& file = *static_cast<Written*>(opaque);
  auto size = static_cast<int64_t>(file.bytes.size());
  if (whence & AVSEEK_SIZE) return size;
  auto to = offset + (whence == SEEK_CUR ? file.write_at : whence == SEEK_END ? size : 0);
  return to < 0 ? AVERROR(EINVAL) : file.write_at = to;
}

int read_written(void* opaque, uint8_t* to, int count) {
  auto& file = *static_cast<Written*>(opaque);
  Bytes all{file.bytes, file.read_at};
  auto length = read_bytes(&all, to, count);
  file.read_at = all.at;
  return length;
}

int64_t seek_read(void* opaque, int64_t offset, int whence) {
  auto& file = *static_cast<Written*>(opaque);
  Bytes all{file.bytes, file.read_at};
  auto result = seek_bytes(&all, offset, whence);
  file.read_at = all.at;
  return result;
}

void free_io(AVIOContext* io) {
  av_freep(&io->buffer);
  avio_context_free(&io);
}

struct FreedOutput {
  void operator()(AVFormatContext* output) const {
    if (output->pb) free_io(output->pb);
    avformat_free_context(output);
  }
};

class FfmpegVideo : public VideoWriter {
 public:
  explicit FfmpegVideo(const VideoFormat& format);
  std::string encoder() const override { return encoder_->codec->name; }
  void add(const uint8_t* pixels_HW3) override;
  std::string finish() override;

 private:
  void open_output(const std::string& container);
  void open_encoder(const VideoFormat& format);
  void begin(const VideoFormat& format);
  void encode(const AVFrame* frame);

  Written file_;
  AVStream* stream_ = nullptr;
  std::unique_ptr<AVFormatContext, FreedOutput> output_;
  Codec encoder_;
  Frame frame_{av_frame_alloc()};
  Packet packet_{av_packet_alloc()};
  std::unique_ptr<SwsContext, decltype(&sws_freeContext)> scaler_{nullptr, sws_freeContext};
  int64_t num_frames_ = 0;
  RawSound sound_;
  std::optional<SoundTrack> track_;  ///< of a video that sounds
};

FfmpegVideo::FfmpegVideo(const VideoFormat& format) : sound_(format.sound) {
  av_log_set_level(AV_LOG_QUIET);
  open_output(format.container);
  open_encoder(format);
  begin(format);
}

/// What opens the file again, while its index is moved, gets what was written so far.
void FfmpegVideo::open_output(const std::string& container) {
  AVFormatContext* output = nullptr;
  check(avformat_alloc_output_context2(&output, nullptr, container.c_str(), nullptr));
  output_.reset(output);
  output->pb =
      avio_alloc_context(static_cast<uint8_t*>(av_malloc(kBufferBytes)), kBufferBytes, 1, &file_, nullptr, write_bytes, seek_write);
  output->opaque = &file_;
  output->flags |= AVFMT_FLAG_BITEXACT;  // neither the time nor FFmpeg's version is in the file
  output->io_open = [](AVFormatContext* context, AVIOContext** io, const char*, int, AVDictionary**) {
    static_cast<Written*>(context->opaque)->read_at = 0;
    *io = avio_alloc_context(static_cast<uint8_t*>(av_malloc(kBufferBytes)), kBufferBytes, 0, context->opaque, read_written, nullptr,
                             seek_read);
    return *io == nullptr ? AVERROR(ENOMEM) : 0;
  };
  output->io_close2 = [](AVFormatContext*, AVIOContext* io) {
    free_io(io);
    return 0;
  };
}

void FfmpegVideo::open_encoder(const VideoFormat& format) {
  const AVCodec* codec = nullptr;
  std::string names;
  for (const auto& name : format.encoders) {
    if (codec == nullptr) codec = avcodec_find_encoder_by_name(name.c_str());
    names += (names.empty() ? "" : ", ") + name;
  }
  if (codec == nullptr) throw std::runtime_error("FFmpeg's libraries here have none of the encoders " + names);
  encoder_.reset(avcodec_alloc_context3(codec));
  encoder_->height = static_cast<int>(format.height);
  encoder_->width = static_cast<int>(format.width);
  encoder_->pix_fmt = AV_PIX_FMT_YUV420P;
  encoder_->time_base = {static_cast<int>(format.rate.den), static_cast<int>(format.rate.num)};
  encoder_->framerate = av_inv_q(encoder_->time_base);
  encoder_->color_range = AVCOL_RANGE_MPEG;
  encoder_->colorspace = AVCOL_SPC_BT709;
  encoder_->color_primaries = AVCOL_PRI_BT709;
  encoder_->color_trc = AVCOL_TRC_BT709;
  encoder_->thread_count = 0;
  if (output_->oformat->flags & AVFMT_GLOBALHEADER) encoder_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  AVDictionary* settings = nullptr;
  for (const auto& [name, words] : kSettings) {
    const auto* told = format.settings.empty() ? words : format.settings.c_str();
    if (name == codec->name) av_dict_parse_string(&settings, told, "=", ":", 0);
  }
  auto opened = avcodec_open2(encoder_.get(), codec, &settings);
  av_dict_free(&settings);
  check(opened);
}

void FfmpegVideo::begin(const VideoFormat& format) {
  stream_ = avformat_new_stream(output_.get(), nullptr);
  if (stream_ == nullptr) throw std::bad_alloc();
  check(avcodec_parameters_from_context(stream_->codecpar, encoder_.get()));
  stream_->time_base = encoder_->time_base;
  stream_->avg_frame_rate = stream_->r_frame_rate = encoder_->framerate;
  if (!sound_.samples.empty()) track_.emplace(output_.get(), sound_);
  for (const auto& [name, value] : format.text) av_dict_set(&output_->metadata, name.c_str(), value.c_str(), 0);
  AVDictionary* settings = nullptr;
  av_dict_set(&settings, "movflags", "+faststart+use_metadata_tags", 0);
  auto begun = avformat_write_header(output_.get(), &settings);
  av_dict_free(&settings);
  check(begun);
  frame_->format = encoder_->pix_fmt;
  frame_->height = encoder_->height;
  frame_->width = encoder_->width;
  frame_->color_range = encoder_->color_range;
  frame_->colorspace = encoder_->colorspace;
  check(av_frame_get_buffer(frame_.get(), 0));
  constexpr int kHow = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP | SWS_BITEXACT;
  scaler_.reset(sws_getContext(frame_->width, frame_->height, AV_PIX_FMT_RGB24, frame_->width, frame_->height, encoder_->pix_fmt, kHow,
                               nullptr, nullptr, nullptr));
  if (!scaler_) throw std::bad_alloc();
  constexpr int kOne = 1 << 16;
  sws_setColorspaceDetails(scaler_.get(), sws_getCoefficients(SWS_CS_DEFAULT), 1, sws_getCoefficients(SWS_CS_ITU709), 0, 0, kOne, kOne);
}

void FfmpegVideo::add(const uint8_t* pixels_HW3) {
  check(av_frame_make_writable(frame_.get()));
  const uint8_t* planes[4] = {pixels_HW3};
  const int strides[4] = {frame_->width * 3};
  check(sws_scale(scaler_.get(), planes, strides, 0, frame_->height, frame_->data, frame_->linesize));
  frame_->pts = num_frames_++;
  encode(frame_.get());
  if (track_) track_->encode_until(static_cast<double>(num_frames_) * av_q2d(encoder_->time_base));
}

void FfmpegVideo::encode(const AVFrame* frame) {
  check(avcodec_send_frame(encoder_.get(), frame));
  while (true) {
    auto received = avcodec_receive_packet(encoder_.get(), packet_.get());
    if (received == AVERROR(EAGAIN) || received == AVERROR_EOF) return;
    check(received);
    packet_->duration = 1;
    packet_->stream_index = stream_->index;
    av_packet_rescale_ts(packet_.get(), encoder_->time_base, stream_->time_base);
    check(av_interleaved_write_frame(output_.get(), packet_.get()));
  }
}

std::string FfmpegVideo::finish() {
  encode(nullptr);
  if (track_) track_->finish();
  check(av_write_trailer(output_.get()));
  avio_flush(output_->pb);
  return std::move(file_.bytes);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> read_video_text(const char* file) {
  Input input(file, {});
  std::vector<std::pair<std::string, std::string>> text;
  const AVDictionaryEntry* entry = nullptr;
  while ((entry = av_dict_get(input.get()->metadata, "", entry, AV_DICT_IGNORE_SUFFIX)) != nullptr)
    text.emplace_back(entry->key, entry->value);
  return text;
}

}  // namespace burnish::data

extern "C" std::vector<std::pair<std::string, std::string>> burnish_read_video_text(const char* file) {
  return burnish::data::read_video_text(file);
}

extern "C" burnish::data::VideoWriter* burnish_begin_video(const burnish::data::VideoFormat& format) {
  return new burnish::data::FfmpegVideo(format);
}
