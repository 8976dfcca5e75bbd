#include "quant/trained_codes.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "kernels/quantize_blocks/quantize_blocks.h"
#include "nn/linear.h"
#include "optim/rounding.h"
#include "quant/source.h"

namespace burnish::quant {

namespace {

constexpr double kLargest = 448;
constexpr int kSmallestExponent = -100;  // of a scale; that of a row of zeros

/// The smallest power of two that makes `most` 448 at most when divided by it.
at::Tensor power_of_two_scale(const at::Tensor& most) {
  return kernels::exponents_to_448(most).clamp_min_(127 + kSmallestExponent).bitwise_left_shift_(23).view(at::kFloat);
}

}  // namespace

void TrainedCodes::read(int64_t begin, const at::Tensor& exact) const {
  auto first = begin / weight_.in;
  exact.copy_(dequantize_rows(weight_, first, first + exact.numel() / weight_.in, at::kFloat).view({-1}));
}

void TrainedCodes::write(int64_t begin, at::Tensor exact, std::optional<uint64_t> key) {
  auto rows = exact.view({-1, weight_.in});
  auto codes = weight_.codes.narrow(0, begin / weight_.in, rows.size(0));
  auto scales = weight_.scales.narrow(0, begin / weight_.in, rows.size(0));
  auto most = rows.abs().amax(1, true);
  auto in_scales = most / scales;
  scales.copy_(at::where((in_scales > kLargest).logical_or_(in_scales < kLargest / 4), power_of_two_scale(most), scales));
  rows.div_(scales);
  if (key) optim::round_to_e4m3(rows, codes, *key);
  else codes.copy_(rows.to(at::kFloat8_e4m3fn).view(at::kByte));
}

QuantizedWeight quantize_to_train(const nn::WeightSource::Rows& rows, int64_t out, int64_t in, c10::Device device,
                                  const std::string& name) {
  at::NoGradGuard no_grad;
  auto bytes = at::TensorOptions().dtype(at::kByte).device(device);
  QuantizedWeight w{{CodeKind::e4m3, Scaling::row}, at::empty({out, in}, bytes), {}, out, in};
  w.scales = at::full({out, 1}, std::exp2(kSmallestExponent), bytes.dtype(at::kFloat));
  TrainedCodes codes(w);
  nn::for_each_tile(out, in, device, [&](int64_t begin, int64_t end) {
    auto tile = rows(begin, end).to(device).clone();
    check_finite(tile, name);
    codes.write(begin * in, tile.view({-1}), std::nullopt);
  });
  return w;
}

std::map<std::string, std::shared_ptr<optim::ValueStore>> trained_codes(nn::Module& root) {
  std::map<std::string, std::shared_ptr<optim::ValueStore>> stores;
  root.visit([&](const std::string& path, nn::Module& module) {
    auto* map = dynamic_cast<nn::LinearMap*>(&module);
    auto* source = map ? dynamic_cast<QuantizedSource*>(&map->source()) : nullptr;
    if (source && source->gradient_leaf().defined())
      stores[path.empty() ? "weight" : path + ".weight"] = std::make_shared<TrainedCodes>(source->weight());
  });
  return stores;
}

}  // namespace burnish::quant
