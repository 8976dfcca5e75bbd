#include "quant/quantized_weight.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "kernels/rotate/rotate.h"
#include "kernels/unpack/unpack.h"

namespace burnish::quant {

namespace {

constexpr int64_t kBlock = 128, kNeighbours = 64;
constexpr double kSmallestScale = 1e-30;  // of a row of zeros

at::Tensor padded_columns(const at::Tensor& tile, int64_t multiple) {
  auto missing = ceil_div(tile.size(1), multiple) * multiple - tile.size(1);
  return missing ? at::constant_pad_nd(tile, {0, missing}) : tile;
}

/// Largest magnitude that each scale of a tile of rows covers: [1, 1], [n, 1], [ceil(n / 128), ceil(in / 128)] or [n, ceil(in / 64)].
at::Tensor magnitudes(const at::Tensor& tile, Scaling scaling) {
  auto size = tile.abs();
  switch (scaling) {
    case Scaling::none:
    case Scaling::tensor: return size.amax().reshape({1, 1});
    case Scaling::row: return size.amax(1, true);
    case Scaling::row_block: return padded_columns(size, kNeighbours).unflatten(1, {-1, kNeighbours}).amax(2);
    case Scaling::block: break;
  }
  auto by_row = padded_columns(size, kBlock).unflatten(1, {-1, kBlock}).amax(2);
  auto missing = ceil_div(tile.size(0), kBlock) * kBlock - tile.size(0);
  return at::constant_pad_nd(by_row, {0, 0, 0, missing}).unflatten(0, {-1, kBlock}).amax(1);
}

/// Divides a tile by its scales in place.
void divide(at::Tensor& tile, const at::Tensor& scales_NG, int64_t group) {
  if (scales_NG.size(1) == 1) {
    tile.div_(scales_NG);
  } else {
    tile.div_(scales_NG.repeat_interleave(group, 1).narrow(1, 0, tile.size(1)));
  }
}

at::Tensor nf4_codes(const at::Tensor& tile) {
  const auto& values = kernels::nf4_values();
  std::vector<float> borders;
  for (size_t i = 0; i + 1 < values.size(); ++i) borders.push_back((values[i] + values[i + 1]) / 2);
  auto nearest = at::bucketize(tile, at::tensor(borders, at::kFloat).to(tile.device()), /*out_int32=*/true).to(at::kByte);
  auto pairs = padded_columns(nearest, 2).unflatten(1, {-1, 2});
  return pairs.select(2, 0) * 16 + pairs.select(2, 1);
}

/// Codes of a tile that was divided by its scales; rounds to nearest, ties to even.
at::Tensor codes_of(at::Tensor tile, CodeKind kind) {
  const double limit = largest(kind);
  if (kind == CodeKind::nf4) return nf4_codes(tile);
  tile.clamp_(-limit, limit);
  switch (kind) {
    case CodeKind::e4m3: return tile.to(at::kFloat8_e4m3fn).view(at::kByte);
    case CodeKind::e5m2: return tile.to(at::kFloat8_e5m2).view(at::kByte);
    default: return tile.round_().to(at::kChar).view(at::kByte);
  }
}

std::vector<int64_t> scale_shape(Format format, int64_t out, int64_t in) {
  switch (format.scaling) {
    case Scaling::none:
    case Scaling::tensor: return {1, 1};
    case Scaling::row: return {out, 1};
    case Scaling::block: return {ceil_div(out, kBlock), ceil_div(in, kBlock)};
    case Scaling::row_block: return {out, ceil_div(in, kNeighbours)};
  }
  return {};
}

}  // namespace

at::Tensor scales_of_rows(const QuantizedWeight& w, int64_t begin, int64_t end) {
  switch (w.format.scaling) {
    case Scaling::none:
    case Scaling::tensor: return w.scales.expand({end - begin, 1});
    case Scaling::block: return w.scales.index_select(0, at::arange(begin, end, w.scales.options().dtype(at::kLong)).div_(kBlock, "floor"));
    default: return w.scales.narrow(0, begin, end - begin);
  }
}

void check_finite(const at::Tensor& values, const std::string& name) {
  if (values.is_meta()) return;  // a dry run has shapes alone
  auto largest = values.abs().max().item<double>();
  if (std::isfinite(largest)) return;
  data_error("quant", "'{}' holds {}; the file is damaged or its model diverged, and such a weight cannot be stored in fewer bits", name,
             std::isnan(largest) ? "NaN" : "an infinity");
}

namespace {
/// Calls `fn` as nn::for_each_tile does, but for the tiles of a dry run that lie behind the second and before the last: they take and free
/// what the second did, a weight has some dozens of them, and a model a thousand weights.
void for_each_unlike_tile(int64_t out, int64_t in, c10::Device device, const std::function<void(int64_t, int64_t)>& fn) {
  const auto step = nn::tile_rows(in, device);
  nn::for_each_tile(out, in, device, [&](int64_t begin, int64_t end) {
    const bool is_as_before = device.is_meta() && begin >= 2 * step && end < out;
    if (!is_as_before) fn(begin, end);
  });
}
}  // namespace

QuantizedWeight quantize(const nn::WeightSource::Rows& rows, int64_t out, int64_t in, Format format, c10::Device device,
                         const std::string& name) {
  at::NoGradGuard no_grad;
  auto bytes = at::TensorOptions().dtype(at::kByte).device(device);
  QuantizedWeight w{format,
                    at::empty({out, code_bytes(format.codes, in)}, bytes),
                    at::ones(scale_shape(format, out, in), bytes.dtype(at::kFloat)),
                    out,
                    in,
                    rotation_of(format, in)};
  const auto limit = largest(format.codes);
  bool whole = format.scaling == Scaling::none || format.scaling == Scaling::tensor;
  if (whole && !device.is_meta()) {
    double most = 0;
    nn::for_each_tile(out, in, device, [&](int64_t begin, int64_t end) {
      auto magnitude = magnitudes(rows(begin, end).to(device), format.scaling);
      check_finite(magnitude, name);
      most = std::max(most, magnitude.item<double>());
    });
    if (format.scaling == Scaling::tensor) w.scales.fill_(std::max(most / limit, kSmallestScale));
    if (format.scaling == Scaling::none && most > limit) {
      data_error("quant", "'{}' holds a value of magnitude {:.4g}, beyond the {} of unscaled FP8; choose weight_format fp8", name, most,
                 limit);
    }
  }
  for_each_unlike_tile(out, in, device, [&](int64_t begin, int64_t end) {
    auto tile = rows(begin, end).to(device).clone(at::MemoryFormat::Contiguous);
    if (w.rotation > 0) kernels::rotate_(tile, w.rotation);
    if (!whole) {
      auto magnitude = magnitudes(tile, format.scaling);
      check_finite(magnitude, name);
      auto first = format.scaling == Scaling::block ? begin / kBlock : begin;
      w.scales.narrow(0, first, magnitude.size(0)).copy_(magnitude.div_(limit).clamp_min_(kSmallestScale));
    }
    divide(tile, scales_of_rows(w, begin, end), group_size(format, in));
    w.codes.narrow(0, begin, end - begin).copy_(codes_of(tile, format.codes));
  });
  return w;
}

QuantizedWeight quantize(const at::Tensor& weight, Format format, c10::Device device, const std::string& name) {
  auto rows = [&](int64_t begin, int64_t end) { return weight.narrow(0, begin, end - begin).to(device).to(at::kFloat); };
  return quantize(rows, weight.size(0), weight.size(1), format, device, name);
}

namespace {

Scaling scaling_of(const Codes& codes) {
  if (!codes.scales.defined()) return Scaling::none;
  if (codes.group > 0 && codes.scales.size(1) > 1) return Scaling::row_block;
  return codes.scales.size(0) == 1 && codes.group == 0 ? Scaling::tensor : Scaling::row;
}

}  // namespace

Format format_of(const Codes& codes) {
  Format format{codes.kind, scaling_of(codes)};
  if (format.scaling == Scaling::row_block) format.group = codes.group;
  return format;
}

QuantizedWeight from_codes(const Codes& codes, c10::Device device, const std::string& name) {
  at::NoGradGuard no_grad;
  const int64_t out = codes.num_rows();
  QuantizedWeight w{format_of(codes), {}, {}, out, codes.in(), codes.rotation};
  w.codes = codes.codes.to(codes.codes.options().device(device), false, /*copy=*/true).contiguous();
  auto fp32 = at::TensorOptions().dtype(at::kFloat).device(device);
  w.scales = codes.scales.defined() ? codes.scales.to(fp32, false, true).contiguous() : at::ones({1, 1}, fp32);
  check_finite(w.scales, name + "'s scale");
  if (is_fp8(codes.kind) || codes.kind == CodeKind::mxfp8 || code_block(codes.kind).holds_scales) {  // others have no codes for them
    for_each_unlike_tile(out, w.in, device,
                         [&](int64_t begin, int64_t end) { check_finite(dequantize_rows(w, begin, end, at::kFloat, false), name); });
  }
  return w;
}

at::Tensor dequantize_rows(const QuantizedWeight& w, int64_t begin, int64_t end, c10::ScalarType dtype, bool with_scales) {
  auto scales = with_scales ? scales_of_rows(w, begin, end) : at::ones({1, 1}, w.scales.options()).expand({end - begin, 1});
  auto group = with_scales ? group_size(w.format, w.in) : w.in;
  return kernels::unpack(w.codes.narrow(0, begin, end - begin), w.format.codes, scales, group, w.in, dtype, with_scales ? w.rotation : 0);
}

}  // namespace burnish::quant
