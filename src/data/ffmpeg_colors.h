#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

// Inside of the library libburnish_clips.so: the colours of most videos, faster than FFmpeg's.
namespace burnish::data {

/// A frame whose U and V have half of the rows and columns, 8 bits each (YUV 4:2:0, planar).
struct Yuv420Frame {
  const uint8_t* planes[3];
  ptrdiff_t strides[3];
  int height, width;  ///< even, and of 16 at least
};

/// The factors of V in red, of U in blue, and of both in green, which are below 0, with 16 bits behind the point; and whether black and
/// white are 0 and 255, or 16 and 235.
struct YuvFactors {
  int64_t red, blue, green_u, green_v;
  bool is_full_range;
};

/// Makes RGB of frames: the bytes of swscale with its accurate and bit-exact flags, but of colours so bright that its sums overflow. U and
/// V are widened by Keys' bicubic filter (a = -0.6) from between their samples, with weights of 14 bits along rows and 12 bits down
/// columns.
class Yuv420ToRgb {
 public:
  static bool takes(int height, int width) { return height % 2 == 0 && width % 2 == 0 && height >= 16 && width >= 16; }
  /// Writes rows of RGB, one behind the other.
  void convert(const Yuv420Frame& frame, const YuvFactors& factors, uint8_t* to_HW3);

 private:
  const int16_t* widened(const Yuv420Frame& frame, int plane, int row);

  std::vector<int16_t> recent_[2];  ///< four widened rows of U and of V, row y in place y % 4
  int64_t held_[2][4] = {};         ///< the row in each place, counted from 1; 0: none
  std::vector<uint8_t> padded_;
  std::vector<int32_t> between_[2];
  std::vector<uint8_t> colors_;
};

}  // namespace burnish::data
