#include "data/ffmpeg_colors.h"

#include <algorithm>
#include <cstring>

#include "base/simd.h"

namespace burnish::data {

namespace {

constexpr int kTaps = 4;
// The filter at a quarter of a sample, for what lies before a sample and behind it; each sums to 1. What is lost in rounding a weight goes
// to the next. Of the first and the third value swscale leaves the farthest sample out, which lies before the edge.
constexpr int32_t kRowBefore[kTaps] = {-461, 3943, 14284, -1382}, kRowBehind[kTaps] = {-1382, 14284, 3943, -461};
constexpr int32_t kColumnBefore[kTaps] = {-115, 985, 3572, -346}, kColumnBehind[kTaps] = {-346, 3572, 985, -115};
constexpr int32_t kRowEdge[kTaps] = {0, 3835, 13894, -1345}, kColumnEdge[kTaps] = {0, 959, 3473, -336};
constexpr int32_t kMost15 = 32767;
// Sums of Y, U and V are unsigned, around this, so that none of them overflows.
constexpr uint32_t kZero = 1250000000;

/// Twice as many columns as `n` samples, which have kTaps / 2 more on each side; 7 bits behind the point.
BURNISH_SIMD void widen(const uint8_t* samples, int16_t* to, int n) {
#pragma omp simd
  for (int i = 0; i < n; ++i) {
    int32_t a = samples[i], b = samples[i + 1], c = samples[i + 2], d = samples[i + 3], e = samples[i + 4];
    int32_t before = (a * kRowBefore[0] + b * kRowBefore[1] + c * kRowBefore[2] + d * kRowBefore[3]) >> 7;
    int32_t behind = (b * kRowBehind[0] + c * kRowBehind[1] + d * kRowBehind[2] + e * kRowBehind[3]) >> 7;
    to[2 * i] = static_cast<int16_t>(before < kMost15 ? before : kMost15);
    to[2 * i + 1] = static_cast<int16_t>(behind < kMost15 ? behind : kMost15);
  }
}

/// A row between four rows, less the middle of U and V; 9 bits behind the point.
BURNISH_SIMD void weigh(const int16_t* a, const int16_t* b, const int16_t* c, const int16_t* d, const int32_t* weights, int32_t* to,
                        int n) {
  const int32_t wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
#pragma omp simd
  for (int x = 0; x < n; ++x) to[x] = ((1 << 9) - (128 << 19) + a[x] * wa + b[x] * wb + c[x] * wc + d[x] * wd) >> 10;
}

/// Clips a sum to the colours that there are, of 22 bits behind the point.
inline uint8_t clipped(uint32_t sum) {
  constexpr uint32_t kMost = kZero + (1U << 30) - 1;
  sum = sum < kZero ? kZero : sum;
  sum = sum > kMost ? kMost : sum;
  return static_cast<uint8_t>((sum - kZero) >> 22);
}

struct Factors {
  int32_t luma, black, red, blue, green_u, green_v;
};

BURNISH_SIMD void mix(const uint8_t* y, const int32_t* u, const int32_t* v, const Factors& f, uint8_t* red, uint8_t* green, uint8_t* blue,
                      int n) {
  const auto luma = f.luma, black = f.black, of_red = f.red, of_blue = f.blue, of_green_u = f.green_u, of_green_v = f.green_v;
#pragma omp simd
  for (int x = 0; x < n; ++x) {
    const uint32_t gray = kZero + (1U << 21) + static_cast<uint32_t>((y[x] * 512 - black) * luma);
    red[x] = clipped(gray + static_cast<uint32_t>(v[x] * of_red));
    green[x] = clipped(gray + static_cast<uint32_t>(v[x] * of_green_v + u[x] * of_green_u));
    blue[x] = clipped(gray + static_cast<uint32_t>(u[x] * of_blue));
  }
}

BURNISH_SIMD void interleave(const uint8_t* red, const uint8_t* green, const uint8_t* blue, uint8_t* to, int n) {
#pragma omp simd
  for (int x = 0; x < n; ++x) {
    to[3 * x] = red[x];
    to[3 * x + 1] = green[x];
    to[3 * x + 2] = blue[x];
  }
}

/// A factor of 16 bits behind the point as one of 13.
int32_t in_13_bits(int64_t factor) { return static_cast<int32_t>((factor * (1 << 13) + (1 << 15)) >> 16); }

Factors factors_of(const YuvFactors& given) {
  constexpr int64_t kOne = 1 << 16;
  const bool is_full = given.is_full_range;
  auto ranged = [&](int64_t factor) { return in_13_bits(is_full ? factor * 224 / 255 : factor); };
  return {.luma = in_13_bits(is_full ? kOne : kOne * 255 / 219),
          .black = is_full ? 0 : 16 * 512,
          .red = ranged(given.red),
          .blue = ranged(given.blue),
          .green_u = ranged(given.green_u),
          .green_v = ranged(given.green_v)};
}

}  // namespace

/// A row of U or V, widened; those beyond an edge are the last ones before it.
const int16_t* Yuv420ToRgb::widened(const Yuv420Frame& frame, int plane, int row) {
  const int num_rows = frame.height / 2, n = frame.width / 2;
  row = std::clamp(row, 0, num_rows - 1);
  auto* to = recent_[plane].data() + static_cast<ptrdiff_t>(row % kTaps) * frame.width;
  if (held_[plane][row % kTaps] == row + 1) return to;
  held_[plane][row % kTaps] = row + 1;
  const auto* samples = frame.planes[1 + plane] + row * frame.strides[1 + plane];
  std::memset(padded_.data(), samples[0], kTaps / 2);
  std::memcpy(padded_.data() + kTaps / 2, samples, static_cast<size_t>(n));
  std::memset(padded_.data() + kTaps / 2 + n, samples[n - 1], kTaps / 2);
  widen(padded_.data(), to, n);
  for (int i : {0, 1}) {
    int32_t sum = 0;
    for (int k = 0; k < kTaps; ++k) sum += padded_[static_cast<size_t>(i + k)] * kRowEdge[k];
    to[2 * i] = static_cast<int16_t>(std::min(sum >> 7, kMost15));
  }
  return to;
}

void Yuv420ToRgb::convert(const Yuv420Frame& frame, const YuvFactors& given, uint8_t* to_HW3) {
  const auto factors = factors_of(given);
  const auto width = static_cast<size_t>(frame.width);
  padded_.resize(width / 2 + kTaps);
  colors_.resize(width * 3);
  for (int plane : {0, 1}) {
    recent_[plane].resize(width * kTaps);
    between_[plane].resize(width);
    std::fill_n(held_[plane], kTaps, 0);
  }
  for (int y = 0; y < frame.height; ++y) {
    const int first = (y + 1) / 2 - 2;  // of the four rows of U and V around this one
    for (int plane : {0, 1}) {
      const int16_t* rows[kTaps];
      for (int k = 0; k < kTaps; ++k) rows[k] = widened(frame, plane, first + k);
      const auto* weights = y % 2 == 1 ? kColumnBehind : y < kTaps - 1 ? kColumnEdge : kColumnBefore;
      weigh(rows[0], rows[1], rows[2], rows[3], weights, between_[plane].data(), frame.width);
    }
    auto *red = colors_.data(), *green = red + width, *blue = green + width;
    mix(frame.planes[0] + y * frame.strides[0], between_[0].data(), between_[1].data(), factors, red, green, blue, frame.width);
    interleave(red, green, blue, to_HW3 + static_cast<ptrdiff_t>(y) * frame.width * 3, frame.width);
  }
}

}  // namespace burnish::data
