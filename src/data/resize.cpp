#include "data/resize.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "base/simd.h"
#include "data/archived_files.h"
#include "data/codecs.h"
#include "data/image.h"
#include "data/row_scaler.h"

namespace burnish::data {

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

Size within(Size picture, int64_t side) {
  const auto longest = std::max({picture.height, picture.width, side});
  return {std::max<int64_t>(1, picture.height * side / longest), std::max<int64_t>(1, picture.width * side / longest)};
}

void check_unchanged(const std::filesystem::path& file, Size known, Size found) {
  if (found == known) return;
  data_error("data", "the picture {} was changed while this run was reading it; give the same command again", file.string());
}

namespace {

/// Colours [H, W, 4] times how opaque they are, in Pillow's rounding.
at::Tensor premultiplied(const at::Tensor& pixels_HW4) {
  auto out = pixels_HW4.clone();
  auto* p = out.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < out.numel(); i += 4) {
    for (int64_t c = 0; c < 3; ++c) {
      const int product = p[i + c] * p[i + 3] + 128;
      p[i + c] = static_cast<uint8_t>(((product >> 8) + product) >> 8);
    }
  }
  return out;
}

/// The way back; what cannot be seen stays as it is.
at::Tensor unmultiplied(const at::Tensor& pixels_HW4) {
  auto out = pixels_HW4.contiguous();
  auto* p = out.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < out.numel(); i += 4) {
    const int alpha = p[i + 3];
    for (int64_t c = 0; c < 3 && alpha > 0 && alpha < 255; ++c) p[i + c] = static_cast<uint8_t>(std::min(255, 255 * p[i + c] / alpha));
  }
  return out;
}

at::Tensor cut_out(const at::Tensor& pixels_HWC, const Crop& crop) {
  auto x = pixels_HWC.contiguous();
  const Size size{x.size(0), x.size(1)};
  if (covering_size(size, crop.size) == size) {  // nothing is scaled
    auto window = x.narrow(0, crop.top, crop.size.height).narrow(1, crop.left, crop.size.width);
    return crop.flip ? window.flip({1}) : window.contiguous();
  }
  const bool has_alpha = x.size(2) == 4;
  if (has_alpha) x = premultiplied(x);
  RowScaler scaler(size, x.size(2), crop);
  for (int64_t y = 0; y < x.size(0); ++y) scaler.take(x.const_data_ptr<uint8_t>() + y * x.size(1) * x.size(2));
  return has_alpha ? unmultiplied(scaler.scaled_HWC()) : scaler.scaled_HWC();
}

}  // namespace

at::Tensor resize_and_crop(const at::Tensor& pixels_HWC, const Crop& crop) { return altered(cut_out(pixels_HWC, crop), crop.alteration); }

at::Tensor resize_and_crop(const at::Tensor& pixels_HWC, Size target) {
  return resize_and_crop(pixels_HWC, centre_crop({pixels_HWC.size(0), pixels_HWC.size(1)}, target));
}

at::Tensor decode_and_crop(const std::filesystem::path& path, const std::function<Crop(const Size& picture)>& crop_of) {
  auto bytes = read_file_bytes(path);
  auto header = decode_bytes(bytes, path.string(), /*header_only=*/true);
  if (header.orientation >= 5) std::swap(header.size.height, header.size.width);
  const auto crop = crop_of(header.size);
  RowScaler scaler(header.size, 3, crop);
  bool is_jpeg = bytes.starts_with("\xFF\xD8\xFF");
  if (is_jpeg && decode_jpeg_rows(bytes, path.string(), [&](const uint8_t* row) { scaler.take(row); }))
    return altered(scaler.scaled_HWC(), crop.alteration);
  return resize_and_crop(decode_upright(bytes, path.string()), crop);
}

at::Tensor decode_and_crop(const std::filesystem::path& path, Size known, const Crop& crop) {
  return decode_and_crop(path, [&](const Size& found) {
    check_unchanged(path, known, found);
    return crop;
  });
}

namespace {

BURNISH_SIMD void to_planes(const uint8_t* __restrict pixels, float* __restrict red, float* __restrict green, float* __restrict blue,
                            int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    red[i] = static_cast<float>(pixels[3 * i]) / 127.5F - 1;
    green[i] = static_cast<float>(pixels[3 * i + 1]) / 127.5F - 1;
    blue[i] = static_cast<float>(pixels[3 * i + 2]) / 127.5F - 1;
  }
}

}  // namespace

at::Tensor to_model_range(const at::Tensor& pixels_HWC) {
  if (!pixels_HWC.is_cpu() || pixels_HWC.size(2) != 3) {
    auto image_CHW = pixels_HWC.permute({2, 0, 1}).contiguous().to(at::kFloat);
    // Divided by a tensor: by a number, CUDA multiplies with its reciprocal, whose last bits differ.
    return image_CHW.div_(at::full({}, 127.5, image_CHW.options())).sub_(1);
  }
  auto pixels = pixels_HWC.contiguous();
  auto image_3HW = at::empty({3, pixels.size(0), pixels.size(1)}, at::TensorOptions().dtype(at::kFloat));
  auto* to = image_3HW.mutable_data_ptr<float>();
  auto n = pixels.size(0) * pixels.size(1);
  to_planes(pixels.const_data_ptr<uint8_t>(), to, to + n, to + 2 * n, n);
  return image_3HW;
}

at::Tensor frames_to_model_range(const at::Tensor& pixels_FHWC) {
  const auto& f = pixels_FHWC;
  auto clip_CFHW = at::empty({f.size(3), f.size(0), f.size(1), f.size(2)}, f.options().dtype(at::kFloat));
  for (int64_t k = 0; k < f.size(0); ++k) clip_CFHW.select(1, k).copy_(to_model_range(f[k]));
  return clip_CFHW;
}

at::Tensor to_pixels(const at::Tensor& image_CHW) {
  return ((image_CHW.to(at::kFloat) / 2 + 0.5).clamp(0, 1) * 255).round().to(at::kByte).permute({1, 2, 0}).contiguous();
}

}  // namespace burnish::data
