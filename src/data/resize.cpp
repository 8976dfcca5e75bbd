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

/// The part of a resized side that is kept.
struct Kept {
  int64_t in = 0, out = 0;       ///< the side before and after resizing
  int64_t first = 0, count = 0;  ///< the positions that are kept of it
};

/// For every kept position: where its window starts, and the fixed-point weights.
struct Windows {
  std::vector<int64_t> first, count;
  std::vector<int32_t> weights;
  int64_t widest = 0;
};

/// The triangle filter, widened by the scale when shrinking (Pillow: precompute_coeffs).
Windows windows_for(const Kept& side) {
  double scale = static_cast<double>(side.in) / static_cast<double>(side.out), filter_scale = std::max(scale, 1.0), support = filter_scale;
  Windows w;
  w.widest = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  w.weights.assign(static_cast<size_t>(side.count * w.widest), 0);
  for (int64_t i = 0; i < side.count; ++i) {
    double centre = (static_cast<double>(side.first + i) + 0.5) * scale;
    auto first = std::max<int64_t>(0, static_cast<int64_t>(centre - support + 0.5));
    auto last = std::min<int64_t>(side.in, static_cast<int64_t>(centre + support + 0.5));
    std::vector<double> exact;
    double total = 0;
    for (auto x = first; x < last; ++x) {
      exact.push_back(std::max(0.0, 1.0 - std::abs((static_cast<double>(x) - centre + 0.5) * (1.0 / filter_scale))));
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

/// Resamples along one dimension: `outer` independent lines of `side.in` positions, each of `inner` bytes.
void resample(const uint8_t* from, uint8_t* to, int64_t outer, const Kept& side, int64_t inner) {
  auto w = windows_for(side);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < side.count; ++i) {
      const auto* weights = w.weights.data() + i * w.widest;
      const auto* line = from + (o * side.in + w.first[static_cast<size_t>(i)]) * inner;
      auto* target = to + (o * side.count + i) * inner;
      for (int64_t c = 0; c < inner; ++c) {
        int32_t sum = 1 << (kPrecisionBits - 1);
        for (int64_t k = 0; k < w.count[static_cast<size_t>(i)]; ++k) sum += line[k * inner + c] * weights[k];
        target[c] = to_byte(sum);
      }
    }
  }
}

at::Tensor resize(const at::Tensor& pixels_HWC, const Kept& rows, const Kept& columns) {
  auto bytes = at::TensorOptions().dtype(at::kByte);
  auto x = pixels_HWC.contiguous();
  auto channels = x.size(2);
  if (columns.in == columns.out) {
    x = x.narrow(1, columns.first, columns.count).contiguous();
  } else {
    auto wide = at::empty({rows.in, columns.count, channels}, bytes);
    resample(x.const_data_ptr<uint8_t>(), wide.mutable_data_ptr<uint8_t>(), rows.in, columns, channels);
    x = wide;
  }
  if (rows.in == rows.out) return x.narrow(0, rows.first, rows.count).contiguous();
  auto out = at::empty({rows.count, columns.count, channels}, bytes);
  resample(x.const_data_ptr<uint8_t>(), out.mutable_data_ptr<uint8_t>(), 1, rows, columns.count * channels);
  return out;
}

/// Half to even, as Python rounds.
int64_t round_even(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

}  // namespace

void check_rule(const SizeRule& rule) {
  if ((rule.height == 0) != (rule.width == 0)) config_error("data", "give both height and width, or neither");
  if (rule.height < 0 || rule.width < 0) config_error("data", "height and width must be positive, not {} and {}", rule.height, rule.width);
  if (rule.max_pixels < 1) config_error("data", "max_pixels must be at least 1, not {}", rule.max_pixels);
  if (rule.division < 1) config_error("data", "sides must be multiples of at least 1, not {}", rule.division);
  if (rule.buckets) check_buckets(*rule.buckets, rule.division);
}

Size target_size(const SizeRule& rule, Size picture, const std::string& file) {
  check_rule(rule);
  auto height = rule.height, width = rule.width, division = rule.division;
  if (rule.buckets) {
    auto bucket = bucket_of(*rule.buckets, picture);
    height = bucket.height;
    width = bucket.width;
    division = rule.buckets->step;
  } else if (height == 0) {
    height = picture.height;
    width = picture.width;
    if (height * width > rule.max_pixels) {
      auto scale = std::sqrt(static_cast<double>(height * width) / static_cast<double>(rule.max_pixels));
      height = static_cast<int64_t>(static_cast<double>(height) / scale);
      width = static_cast<int64_t>(static_cast<double>(width) / scale);
    }
  }
  Size size{height / division * division, width / division * division};
  if (size.height == 0 || size.width == 0) {
    data_error("data", "{} is {} by {} pixels: smaller than the {} pixels a side must have", file, picture.width, picture.height, division);
  }
  return size;
}

Size covering_size(Size picture, Size target) {
  auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
  auto scale = std::max(static_cast<double>(target.height) / height, static_cast<double>(target.width) / width);
  return {std::max(target.height, round_even(height * scale)), std::max(target.width, round_even(width * scale))};
}

Crop centre_crop(Size picture, Size target) {
  auto scaled = covering_size(picture, target);
  auto middle = [](int64_t out, int64_t count) { return round_even(static_cast<double>(out - count) / 2.0); };
  return {target, middle(scaled.height, target.height), middle(scaled.width, target.width)};
}

at::Tensor resize_and_crop(const at::Tensor& pixels_HWC, const Crop& crop) {
  Size picture{pixels_HWC.size(0), pixels_HWC.size(1)};
  auto scaled = covering_size(picture, crop.size);
  auto cut = resize(pixels_HWC, {picture.height, scaled.height, crop.top, crop.size.height},
                    {picture.width, scaled.width, crop.left, crop.size.width});
  return crop.flip ? cut.flip({1}) : cut;
}

at::Tensor resize_and_crop(const at::Tensor& pixels_HW3, Size target) {
  return resize_and_crop(pixels_HW3, centre_crop({pixels_HW3.size(0), pixels_HW3.size(1)}, target));
}

at::Tensor to_model_range(const at::Tensor& pixels_HW3) {
  return (pixels_HW3.permute({2, 0, 1}).to(at::kFloat) / 127.5 - 1.0).contiguous();
}

at::Tensor to_pixels(const at::Tensor& image_3HW) {
  return ((image_3HW.to(at::kFloat) / 2 + 0.5).clamp(0, 1) * 255).round().to(at::kByte).permute({1, 2, 0}).contiguous();
}

}  // namespace burnish::data
