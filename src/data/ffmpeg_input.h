#pragma once
// Inside of the library libburnish_clips.so: files as FFmpeg's libraries open them, and what owns what they give.
extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
}

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/clip_frames.h"

namespace burnish::data {

/// Says an error of FFmpeg's in words.
std::string text_of(int error);

/// Throws a std::runtime_error in FFmpeg's words for a result below 0. Damaged headers too ask for memory that is not there.
int check(int result);

/// The bytes of a file, read as FFmpeg asks.
struct Bytes {
  std::string_view all;
  int64_t at = 0;
};

/// What FFmpeg calls to read such bytes and to move in them.
int read_bytes(void* opaque, uint8_t* to, int count);
int64_t seek_bytes(void* opaque, int64_t offset, int whence);

/// The buffer that is between FFmpeg and bytes in memory.
constexpr int kBufferBytes = 1 << 16;

/// An opened file; of bytes in memory with what reads them.
class Input {
 public:
  Input(const char* file, std::string_view bytes);
  ~Input() { close(); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  AVFormatContext* get() const { return context_; }

 private:
  void close();
  Bytes bytes_;
  AVFormatContext* context_ = nullptr;
  AVIOContext* io_ = nullptr;
};

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* pointer) const {
    free(&pointer);
  }
};
using Frame = std::unique_ptr<AVFrame, Freed<av_frame_free>>;
using Packet = std::unique_ptr<AVPacket, Freed<av_packet_free>>;
using Codec = std::unique_ptr<AVCodecContext, Freed<avcodec_free_context>>;

/// Opens a decoder of a stream, and leaves the other streams out of what is read. Throws std::runtime_error where there is no decoder.
Codec open_decoder(AVFormatContext* input, AVStream* stream);

/// Returns when the first frame of a file is shown, in seconds by its container's clock; nothing where it has no frames.
std::optional<Fraction> first_shown(const char* file, std::string_view bytes);

}  // namespace burnish::data
