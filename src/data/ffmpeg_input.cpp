#include "data/ffmpeg_input.h"

extern "C" {
#include <libavutil/opt.h>
}

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace burnish::data {

std::string text_of(int error) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  return av_make_error_string(text, sizeof(text), error);
}

int check(int result) {
  if (result < 0) throw std::runtime_error(text_of(result));
  return result;
}

int read_bytes(void* opaque, uint8_t* to, int count) {
  auto& bytes = *static_cast<Bytes*>(opaque);
  auto length = std::min<int64_t>(count, static_cast<int64_t>(bytes.all.size()) - bytes.at);
  if (length <= 0) return AVERROR_EOF;
  std::memcpy(to, bytes.all.data() + bytes.at, static_cast<size_t>(length));
  bytes.at += length;
  return static_cast<int>(length);
}

int64_t seek_bytes(void* opaque, int64_t offset, int whence) {
  auto& bytes = *static_cast<Bytes*>(opaque);
  auto size = static_cast<int64_t>(bytes.all.size());
  if (whence & AVSEEK_SIZE) return size;
  auto to = offset + (whence == SEEK_CUR ? bytes.at : whence == SEEK_END ? size : 0);
  return to < 0 || to > size ? AVERROR(EINVAL) : bytes.at = to;
}

Input::Input(const char* file, std::string_view bytes) : bytes_{bytes} {
  av_log_set_level(AV_LOG_QUIET);
  context_ = avformat_alloc_context();
  if (!bytes.empty()) {
    io_ = avio_alloc_context(static_cast<uint8_t*>(av_malloc(kBufferBytes)), kBufferBytes, 0, &bytes_, read_bytes, nullptr, seek_bytes);
    context_->pb = io_;
  }
  // Of the protocols "file" alone, so that no file makes the program open an address.
  av_opt_set(context_, "protocol_whitelist", "file", 0);
  auto opened = avformat_open_input(&context_, bytes.empty() ? (std::string("file:") + file).c_str() : nullptr, nullptr, nullptr);
  if (opened >= 0) opened = avformat_find_stream_info(context_, nullptr);
  if (opened < 0) close();
  check(opened);
}

void Input::close() {
  avformat_close_input(&context_);
  if (io_) av_freep(&io_->buffer);
  avio_context_free(&io_);
}

namespace {

/// WebM holds the transparency of VP8 and VP9 beside each frame, where FFmpeg's own decoders leave it; libvpx's take it.
const AVCodec* decoder_with_alpha(AVCodecID codec) {
  const auto* name = codec == AV_CODEC_ID_VP9 ? "libvpx-vp9" : "libvpx";
  const auto* decoder = avcodec_find_decoder_by_name(name);
  if (decoder == nullptr)
    throw std::runtime_error(std::string("it is transparent in part, and FFmpeg's libraries here lack ") + name +
                             ", which reads that; convert it to ProRes 4444 in MOV or to frames as PNG");
  return decoder;
}

bool has_alpha_beside(const AVStream* stream) {
  const auto codec = stream->codecpar->codec_id;
  const auto* mode = av_dict_get(stream->metadata, "alpha_mode", nullptr, 0);
  return (codec == AV_CODEC_ID_VP9 || codec == AV_CODEC_ID_VP8) && mode != nullptr && std::string_view(mode->value) == "1";
}

}  // namespace

Codec open_decoder(AVFormatContext* input, AVStream* stream) {
  for (unsigned i = 0; i < input->nb_streams; ++i) {
    if (input->streams[i] != stream) input->streams[i]->discard = AVDISCARD_ALL;
  }
  const auto* parameters = stream->codecpar;
  const auto* codec = has_alpha_beside(stream) ? decoder_with_alpha(parameters->codec_id) : avcodec_find_decoder(parameters->codec_id);
  if (codec == nullptr)
    throw std::runtime_error(std::string("FFmpeg's libraries here have no decoder for ") + avcodec_get_name(parameters->codec_id));
  Codec decoder(avcodec_alloc_context3(codec));
  check(avcodec_parameters_to_context(decoder.get(), parameters));
  decoder->pkt_timebase = stream->time_base;
  decoder->thread_count = 1;
  check(avcodec_open2(decoder.get(), codec, nullptr));
  return decoder;
}

}  // namespace burnish::data
