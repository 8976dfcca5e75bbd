#include "data/resize.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cfenv>
#include <cmath>

#include "base/error.h"

namespace burnish::data {

namespace {

constexpr int kPrecisionBits = 32 - 8 - 2;  // Pillow's: 8 bits of pixel and 2 of head room in an int32

/// For every output position: where its window starts, and the fixed-point weights.
struct Windows {
  std::vector<int64_t> first, count;
  std::vector<int32_t> weights;
  int64_t widest = 0;
};

/// The triangle filter, widened by the scale when shrinking (Pillow: precompute_coeffs).
Windows windows_for(int64_t in, int64_t out) {
  double scale = static_cast<double>(in) / static_cast<double>(out), filter_scale = std::max(scale, 1.0), support = filter_scale;
  Windows w;
  w.widest = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  w.weights.assign(static_cast<size_t>(out * w.widest), 0);
  for (int64_t i = 0; i < out; ++i) {
    double centre = (static_cast<double>(i) + 0.5) * scale;
    auto first = std::max<int64_t>(0, static_cast<int64_t>(centre - support + 0.5));
    auto last = std::min<int64_t>(in, static_cast<int64_t>(centre + support + 0.5));
    std::vector<double> exact;
    double total = 0;
    for (auto x = first; x < last; ++x) {
      exact.push_back(std::max(0.0, 1.0 - std::abs((static_cast<double>(x) - centre + 0.5) / filter_scale)));
      total += exact.back();
    }
    for (size_t k = 0; k < exact.size(); ++k) {
      w.weights[static_cast<size_t>(i * w.widest) + k] = static_cast<int32_t>(0.5 + exact[k] / total * (1 << kPrecisionBits));
    }
    w.first.push_back(first);
    w.count.push_back(last - first);
  }
  return w;
}

uint8_t to_byte(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255)); }

/// Resamples along one dimension: `outer` independent lines of `in` positions, each of `inner` bytes.
void resample(const uint8_t* from, uint8_t* to, int64_t outer, int64_t in, int64_t out, int64_t inner) {
  auto w = windows_for(in, out);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < out; ++i) {
      const auto* weights = w.weights.data() + i * w.widest;
      const auto* line = from + (o * in + w.first[static_cast<size_t>(i)]) * inner;
      auto* target = to + (o * out + i) * inner;
      for (int64_t c = 0; c < inner; ++c) {
        int32_t sum = 1 << (kPrecisionBits - 1);
        for (int64_t k = 0; k < w.count[static_cast<size_t>(i)]; ++k) sum += line[k * inner + c] * weights[k];
        target[c] = to_byte(sum);
      }
    }
  }
}

at::Tensor resize(const at::Tensor& pixels_HW3, Size size) {
  auto source = pixels_HW3.contiguous();
  auto H = source.size(0), W = source.size(1);
  auto bytes = at::TensorOptions().dtype(at::kByte);
  auto wide = source;
  if (W != size.width) {
    wide = at::empty({H, size.width, 3}, bytes);
    resample(source.const_data_ptr<uint8_t>(), wide.mutable_data_ptr<uint8_t>(), H, W, size.width, 3);
  }
  if (H == size.height) return wide;
  auto out = at::empty({size.height, size.width, 3}, bytes);
  resample(wide.const_data_ptr<uint8_t>(), out.mutable_data_ptr<uint8_t>(), 1, H, size.height, size.width * 3);
  return out;
}

/// Half to even, as Python rounds.
int64_t round_even(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

}  // namespace

Size target_size(const SizeRule& rule, Size picture, const std::string& file) {
  if ((rule.height > 0) != (rule.width > 0)) config_error("data", "give both height and width, or neither");
  auto height = rule.height, width = rule.width;
  if (height == 0) {
    height = picture.height;
    width = picture.width;
    if (height * width > rule.max_pixels) {
      auto scale = std::sqrt(static_cast<double>(height * width) / static_cast<double>(rule.max_pixels));
      height = static_cast<int64_t>(static_cast<double>(height) / scale);
      width = static_cast<int64_t>(static_cast<double>(width) / scale);
    }
  }
  Size size{height / rule.division * rule.division, width / rule.division * rule.division};
  if (size.height == 0 || size.width == 0) {
    data_error("data", "{} is {} by {} pixels: smaller than the {} pixels a side must have", file, picture.width, picture.height,
               rule.division);
  }
  return size;
}

at::Tensor resize_and_crop(const at::Tensor& pixels_HW3, Size target) {
  auto H = pixels_HW3.size(0), W = pixels_HW3.size(1);
  auto scale =
      std::max(static_cast<double>(target.height) / static_cast<double>(H), static_cast<double>(target.width) / static_cast<double>(W));
  Size cover{std::max(target.height, round_even(static_cast<double>(H) * scale)),
             std::max(target.width, round_even(static_cast<double>(W) * scale))};
  auto covered = resize(pixels_HW3, cover);
  auto top = round_even(static_cast<double>(cover.height - target.height) / 2.0),
       left = round_even(static_cast<double>(cover.width - target.width) / 2.0);
  return covered.narrow(0, top, target.height).narrow(1, left, target.width).contiguous();
}

at::Tensor to_model_range(const at::Tensor& pixels_HW3) {
  return (pixels_HW3.permute({2, 0, 1}).to(at::kFloat) / 127.5 - 1.0).contiguous();
}

at::Tensor to_pixels(const at::Tensor& image_3HW) {
  return ((image_3HW.to(at::kFloat) / 2 + 0.5).clamp(0, 1) * 255).round().to(at::kByte).permute({1, 2, 0}).contiguous();
}

}  // namespace burnish::data
