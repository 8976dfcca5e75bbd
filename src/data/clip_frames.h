#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What lies between those who read clips and the formats that they are in; of the library libburnish_clips.so, which alone is linked to
// FFmpeg, it is all that the program sees.
namespace burnish::data {

/// A number of seconds, or of frames a second, as a fraction.
struct Fraction {
  int64_t num = 0, den = 1;
};

/// The frames of a clip in the order in which they are shown, one in memory at a time. What is wrong with a file is thrown as
/// std::runtime_error, in words that say why it cannot be decoded.
class ClipFrames {
 public:
  virtual ~ClipFrames() = default;
  /// Goes on to the next frame; false behind the last one.
  virtual bool next() = 0;
  /// Leaves out frames up to a time, in seconds after the first frame was shown, if that is far: next() then goes on to one that is shown
  /// at this time or before it. False where that cannot be told; then the clip must be opened anew.
  virtual bool skip_to(const Fraction& /*time*/) { return true; }
  /// Tells whether frames have times, or only numbers: then each is shown for a tick.
  virtual bool has_times() const { return true; }
  /// Returns the unit of times.
  virtual Fraction tick() const = 0;
  /// Returns the time at which the frame is no longer shown, in ticks after the first frame was.
  virtual int64_t end() const = 0;
  /// Returns the sides of a frame in square pixels, before it is turned.
  virtual int64_t height() const = 0;
  virtual int64_t width() const = 0;
  /// Returns the number of quarter turns to the left that make the frame upright, 0 to 3, and whether its rows are mirrored before that.
  virtual int quarter_turns() const { return 0; }
  virtual bool is_mirrored() const { return false; }
  /// Writes the frame as RGB, height() rows of width() pixels, with its transparency laid over white.
  virtual void write_pixels(uint8_t* to_HW3) = 0;
  /// Writes how opaque each pixel of the frame is, height() rows of width(): 255 all over where the clip holds no transparency.
  virtual void write_alpha(uint8_t* to_HW) { std::fill_n(to_HW, height() * width(), uint8_t{255}); }
  /// Tells whether a frame so far was interlaced: of lines of two times.
  virtual bool is_interlaced() const { return false; }
  /// Returns a reason to think that the file was to have more frames, or better ones, after the last one; "" where it has what it says.
  virtual std::string damage() const { return ""; }
};

/// The name of the library's function that opens the file of that name, or the bytes of a file where there are any; they must stay.
constexpr const char* kOpenClip = "burnish_open_clip";
using OpenClip = ClipFrames*(const char* file, std::string_view bytes);

/// Sound as a file has it, at its own rate.
struct RawSound {
  int64_t rate = 0, num_channels = 0;  ///< samples a second; one or two channels, to which more are mixed
  std::vector<float> samples = {};     ///< in [-1, 1], a channel behind the other; empty where the file holds no sound
};

/// What a video is written as.
struct VideoFormat {
  std::string container;              ///< "mp4" or "webm"
  std::vector<std::string> encoders;  ///< names of FFmpeg's encoders, of which the first that is there is taken
  int64_t height = 0, width = 0;
  Fraction rate = {16, 1};
  std::vector<std::pair<std::string, std::string>> text = {};  ///< its metadata, UTF-8
  RawSound sound = {};                                         ///< what is heard while it is shown; of no samples: nothing
  std::string settings = {};  ///< what the encoder is told in its own words, "crf=33:preset=veryfast"; "": quality that is hardly told
};

/// A video that is written frame by frame. What cannot be done is thrown as std::runtime_error.
class VideoWriter {
 public:
  virtual ~VideoWriter() = default;
  /// Returns the encoder that was taken.
  virtual std::string encoder() const = 0;
  /// Writes the next frame, RGB, rows of `width` pixels.
  virtual void add(const uint8_t* pixels_HW3) = 0;
  /// Returns the bytes of the file. Nothing may be added after that.
  virtual std::string finish() = 0;
};

/// The name of the library's function that begins a video.
constexpr const char* kBeginVideo = "burnish_begin_video";
using BeginVideo = VideoWriter*(const VideoFormat& format);

/// The name of the library's function that reads the metadata of the video of that name; some containers spell names in capitals.
constexpr const char* kReadVideoText = "burnish_read_video_text";
using ReadVideoText = std::vector<std::pair<std::string, std::string>>(const char* file);

}  // namespace burnish::data
