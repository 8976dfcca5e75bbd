// Fused operators against their plain-ATen references: values and all gradients, fp32 and bf16, odd sizes. On a
// GPU (BURNISH_TEST_DEVICE=cuda) kernels take what vectors of 16 divide, and ATen's path the rest; references are computed on the CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "kernels/channel_gain/channel_gain.h"
#include "kernels/gated_residual/gated_residual.h"
#include "kernels/geglu/geglu.h"
#include "kernels/gelu_tanh/cpu.h"
#include "kernels/gelu_tanh/gelu_tanh.h"
#include "kernels/group_norm_silu/cpu.h"
#include "kernels/group_norm_silu/group_norm_silu.h"
#include "kernels/linear/linear.h"
#include "kernels/modulated_norm/cpu.h"
#include "kernels/modulated_norm/gpu.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "kernels/qk_norm_rope/cpu.h"
#include "kernels/qk_norm_rope/gpu.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "kernels/quantize_rows/quantize_rows.h"
#include "kernels/rotate/rotate.h"
#include "kernels/scaled_sums/scaled_sums.h"
#include "tests/device.h"
#include "tests/relative_error.h"

using namespace burnish;
using test::relative_error;

namespace {

using Tensors = std::vector<at::Tensor>;

/// Runs `op` on copies of `inputs` that require grad: the output and every gradient of sum(output * weight).
Tensors values_and_gradients(const std::function<at::Tensor(const Tensors&)>& op, const Tensors& inputs) {
  Tensors leaves;
  for (const auto& input : inputs) leaves.push_back(input.detach().clone().set_requires_grad(true));
  auto y = op(leaves);
  auto weight = at::linspace(-1, 1, y.numel(), at::kFloat).sin().view(y.sizes()).to(y.device());
  torch::autograd::backward({(y.to(at::kFloat) * weight).sum()}, {});
  Tensors all{y.detach()};
  for (const auto& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

/// The fused operator in `dtype` must be as near to the fp64 reference as the plain one in the same dtype is.
void expect_equal(const std::function<at::Tensor(const Tensors&)>& fused, const std::function<at::Tensor(const Tensors&)>& reference,
                  const Tensors& inputs, at::ScalarType dtype) {
  Tensors rounded, exact;
  for (const auto& input : inputs) {
    rounded.push_back(input.to(test::device(), dtype));
    exact.push_back(rounded.back().cpu().to(at::kDouble));
  }
  auto found = values_and_gradients(fused, rounded);
  auto expected = values_and_gradients(reference, exact);
  auto bound = dtype == at::kFloat ? 2e-5 : 2e-2;
  for (size_t i = 0; i < found.size(); ++i) EXPECT_LE(relative_error(found[i], expected[i]), bound) << "tensor " << i;
}

}  // namespace

TEST(FusedOperators, Geglu) {
  at::manual_seed(0);
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    for (int64_t width : {2, 37, 512}) {
      expect_equal([](const Tensors& in) { return kernels::geglu(in[0]); },
                   [](const Tensors& in) { return in[0].chunk(2, -1)[0] * at::gelu(in[0].chunk(2, -1)[1]); },
                   {at::randn({3, 5, 2 * width}) * 2}, dtype);
    }
  }
}

TEST(FusedOperators, GroupNormSilu) {
  at::manual_seed(0);
  auto reference = [](const Tensors& in) { return at::silu(at::group_norm(in[0], 4, in[1], in[2], 1e-5)); };
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    for (int64_t side : {1, 7, 16, 50}) {
      Tensors inputs{at::randn({2, 12, side, side + 1}) * 3 + 1, at::randn({12}), at::randn({12})};
      if (test::device().is_cpu()) {
        ASSERT_TRUE(kernels::group_norm_silu_fits_cpu(inputs[0], 4, inputs[1], inputs[2]));
      }
      expect_equal([](const Tensors& in) { return kernels::group_norm_silu(in[0], 4, in[1], in[2], 1e-5); }, reference, inputs, dtype);
      // Other layouts take the path of every other device.
      auto turned = [&](const Tensors& in) {
        return kernels::group_norm_silu(in[0].to(at::MemoryFormat::ChannelsLast), 4, in[1], in[2], 1e-5);
      };
      expect_equal(turned, reference, inputs, dtype);
    }
  }
}

TEST(FusedOperators, GroupNormSiluOfFarAwayNumbers) {
  // A mean far from zero must not cancel the spread.
  at::manual_seed(0);
  Tensors inputs{at::randn({1, 8, 9, 9}) + 3000, at::ones({8}), at::zeros({8})};
  auto found = kernels::group_norm_silu(inputs[0], 2, inputs[1], inputs[2], 1e-6);
  auto wide = inputs[0].to(at::kDouble);
  auto expected = at::silu(at::group_norm(wide, 2, inputs[1].to(at::kDouble), inputs[2].to(at::kDouble), 1e-6));
  EXPECT_LE(relative_error(found, expected), 2e-4);  // two roundings of 3000 in fp32
}

TEST(FusedOperators, ModulatedNorm) {
  at::manual_seed(0);
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    for (int64_t width : {8, 37, 512}) {
      auto modulation = at::randn({3, 6, width});
      Tensors inputs{at::randn({3, 41, width}) * 3 + 1, modulation.select(1, 1).contiguous(), modulation.select(1, 4).contiguous()};
      auto x = inputs[0].to(test::device()), part = inputs[1].to(test::device());
      ASSERT_TRUE(x.is_cpu() ? kernels::modulated_norm_fits_cpu(x, part, part)
                             : width % 16 != 0 || kernels::modulated_norm_fits_gpu(x, part, part));
      expect_equal([](const Tensors& in) { return kernels::modulated_norm(in[0], in[1], in[2], 1e-6); },
                   [](const Tensors& in) { return kernels::modulated_norm_reference(in[0], in[1], in[2], 1e-6); }, inputs, dtype);
    }
  }
}

TEST(FusedOperators, ModulatedNormTakesChunksOfOneTensor) {
  at::manual_seed(1);
  auto parts = at::randn({2, 3 * 64}).chunk(3, -1);
  auto x = at::randn({2, 5, 64});
  ASSERT_TRUE(kernels::modulated_norm_fits_cpu(x, parts[1], parts[0]));
  EXPECT_LE(relative_error(kernels::modulated_norm_cpu(x, parts[1], parts[0], 1e-6),
                           kernels::modulated_norm_reference(x, parts[1], parts[0], 1e-6)),
            1e-6);
}

TEST(FusedOperators, QkNormRope) {
  at::manual_seed(2);
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    for (auto [head_dim, together] : {std::pair{2, false}, {10, false}, {64, false}, {128, false}, {10, true}, {128, true}}) {
      Tensors inputs{at::randn({2, 53, 3, head_dim}), (together ? at::randn({3, head_dim}) : at::randn({head_dim})) + 1};
      for (const auto& angles : {at::randn({53, head_dim / 2}), at::randn({2, 53, head_dim / 2})}) {
        auto cos = angles.cos(), sin = angles.sin();
        auto x = inputs[0].to(test::device()), weight = inputs[1].to(test::device());
        auto c = cos.to(test::device()), s = sin.to(test::device());
        ASSERT_TRUE(x.is_cpu() ? kernels::qk_norm_rope_fits_cpu(x, weight, c, s)
                               : head_dim < 64 || kernels::qk_norm_rope_fits_gpu(x, weight, c, s));
        expect_equal([&](const Tensors& in) { return kernels::qk_norm_rope(in[0], in[1], c, s, 1e-6); },
                     [&](const Tensors& in) { return kernels::qk_norm_rope_reference(in[0], in[1], cos, sin, 1e-6); }, inputs, dtype);
      }
    }
  }
}

TEST(FusedOperators, GatedResidual) {
  at::manual_seed(6);
  auto op = [](const Tensors& in) { return kernels::gated_residual(in[0], in[1], in[2]); };
  auto reference = [](const Tensors& in) { return in[0] + in[1].unsqueeze(1) * in[2]; };
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    for (int64_t width : {8, 37, 512})
      expect_equal(op, reference, {at::randn({3, 41, width}), at::randn({3, width}), at::randn({3, 41, width})}, dtype);
  }
}

TEST(FusedOperators, InputGain) {
  at::manual_seed(7);
  auto reference = [](const Tensors& in) { return in[0] * in[1]; };
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    for (int64_t width : {8, 37, 1040}) {
      // The gain is held in fp32 whatever x is; numbers that x's dtype holds too.
      auto op = [](const Tensors& in) { return kernels::input_gain(in[0], in[1].to(at::kFloat)); };
      expect_equal(op, reference, {at::randn({3, 71, width}), at::rand({width}) + 0.5}, dtype);
    }
  }
}

TEST(FusedOperators, QuantizedRowsAreCodesOfLibtorch) {
  at::manual_seed(8);
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    for (int64_t width : {8, 37, 4112}) {
      auto x = (at::randn({5, width}) * at::logspace(-3, 3, 5).unsqueeze(1)).to(dtype);
      auto gain = at::rand({width}) + 0.5;
      auto [codes, scales] = kernels::quantize_rows(x.to(test::device()), gain.to(test::device()), CodeKind::e4m3);
      auto exact = x.to(at::kFloat) * gain, expected = exact.abs().amax(1, true).div(448);
      EXPECT_TRUE(at::equal(scales.cpu(), expected));
      EXPECT_TRUE(at::equal(codes.cpu().view(at::kByte), (exact / expected).clamp(-448, 448).to(at::kFloat8_e4m3fn).view(at::kByte)));
    }
  }
}

TEST(FusedOperators, QuantizedRowsAreInt8CodesOfLibtorch) {
  at::manual_seed(8);
  for (auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (int64_t width : {8, 37, 4112}) {
      auto x = (at::randn({5, width + 3}) * at::logspace(-3, 3, 5).unsqueeze(1)).to(dtype).narrow(1, 1, width);  // rows lie apart
      auto gain = at::rand({width}) + 0.5;
      for (bool gained : {false, true}) {
        auto [codes, scales] =
            kernels::quantize_rows(x.to(test::device()), gained ? gain.to(test::device()) : at::Tensor(), CodeKind::int8);
        auto exact = gained ? x.to(at::kFloat) * gain : x.to(at::kFloat), expected = exact.abs().amax(1, true).div(127);
        EXPECT_TRUE(at::equal(scales.cpu(), expected));
        EXPECT_TRUE(at::equal(codes.cpu(), (exact / expected).round().to(at::kChar)));
      }
    }
  }
  auto x = at::randn({5, 512}), turned = x.clone();
  kernels::rotate_(turned, 256);
  auto rotated = kernels::quantize_rows(x.to(test::device()), {}, CodeKind::int8, 256);
  EXPECT_TRUE(at::equal(rotated.codes_NI.cpu(), (turned / turned.abs().amax(1, true).div(127)).round().to(at::kChar)));
  auto zeros = kernels::quantize_rows(at::zeros({2, 5}, at::device(test::device())), {}, CodeKind::int8);
  EXPECT_TRUE(zeros.codes_NI.eq(0).all().item<bool>());
  EXPECT_TRUE(zeros.scales_N1.gt(0).all().item<bool>());
}

TEST(FusedOperators, NumbersThatAreNoneReachTheScaleOfTheirRow) {
  for (double bad : {std::nan(""), -HUGE_VAL}) {
    auto x = at::ones({3, 40}, at::device(test::device()));
    x.select(0, 1).select(0, 7).fill_(bad);
    auto scales = kernels::quantize_rows(x, {}, CodeKind::int8).scales_N1.cpu();
    EXPECT_TRUE(scales.select(0, 0).isfinite().all().item<bool>());
    EXPECT_FALSE(scales.select(0, 1).isfinite().any().item<bool>());
  }
}

TEST(FusedOperators, RowsAreQuantizedOnceWhereTheyAreShared) {
  auto x = at::randn({2, 20, 64}, at::device(test::device())), other = x.clone();
  auto rows = [](const at::Tensor& of) { return kernels::quantize_rows(of.flatten(0, -2), {}, CodeKind::int8).codes_NI; };
  auto apart = rows(x);
  EXPECT_FALSE(apart.is_alias_of(rows(x)));
  {
    const kernels::SharedRows shared(x);
    auto first = rows(x);
    EXPECT_TRUE(at::equal(first, apart));
    EXPECT_TRUE(first.is_alias_of(rows(x)));
    EXPECT_FALSE(first.is_alias_of(rows(other)));
    EXPECT_FALSE(first.is_alias_of(rows(x.narrow(1, 0, 10))));
    EXPECT_EQ(kernels::quantize_rows(x.flatten(0, -2), {}, CodeKind::e4m3).codes_NI.scalar_type(), at::kFloat8_e4m3fn);
    EXPECT_FALSE(at::equal(kernels::quantize_rows(x.flatten(0, -2), {}, CodeKind::int8, 64).codes_NI, apart));
    EXPECT_FALSE(at::equal(kernels::quantize_rows(x.flatten(0, -2), at::rand({64}, x.options()), CodeKind::int8).codes_NI, apart));
  }
  EXPECT_FALSE(rows(x).is_alias_of(rows(x)));
}

TEST(FusedOperators, SumsOfCodesAreScaled) {
  at::manual_seed(9);
  for (auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (int64_t width : {8, 37, 2100}) {
      auto sums = at::randint(-2000000, 2000000, {5, width}, at::kInt);
      auto rows = at::rand({5, 1}) * 1e-3, columns = at::rand({1, width}) * 1e-3, bias = at::randn({width}).to(dtype);
      auto wide = at::randn({5, width + 3}).to(dtype);
      for (bool adds : {false, true}) {
        for (bool is_forward : {false, true}) {
          auto y = wide.clone().to(test::device()).narrow(1, 1, width);
          auto on_device = [](const at::Tensor& t) { return t.to(test::device()); };
          kernels::scale_sums_(
              y, on_device(sums),
              {on_device(rows), is_forward ? on_device(columns) : at::Tensor(), is_forward ? on_device(bias) : at::Tensor()}, adds);
          auto expected = sums.to(at::kDouble) * rows;
          if (is_forward) expected = expected * columns + bias;
          if (adds) expected = expected + wide.narrow(1, 1, width);
          EXPECT_LE(relative_error(y.cpu(), expected), dtype == at::kFloat ? 1e-6 : dtype == at::kHalf ? 1e-3 : 4e-3) << width;
          EXPECT_TRUE(at::equal(wide.select(1, 0), y.as_strided({5}, {width + 3}, 0).cpu())) << "written beside its place";
        }
      }
    }
    auto sums = at::randint(-2000, 2000, {3, 128}, at::kInt), rows = at::rand({3, 1}), y = at::randn({3, 128}).to(dtype);
    auto turned = sums.to(at::kFloat) * rows, added = y.clone().to(test::device());
    kernels::rotate_(turned, 64);
    kernels::scale_sums_(added, sums.to(test::device()), {rows.to(test::device()), {}, {}, 64}, /*adds=*/true);
    EXPECT_LE(relative_error(added.cpu(), turned.to(at::kDouble) + y), dtype == at::kFloat ? 1e-6 : dtype == at::kHalf ? 1e-3 : 4e-3);
  }
}

TEST(FusedOperators, Linear) {
  at::manual_seed(3);
  auto op = [](const Tensors& in) { return kernels::linear(in[0], in[1], in[2]); };
  auto reference = [](const Tensors& in) { return at::linear(in[0], in[1], in[2]); };
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    for (int64_t rows : {1, 7, 33}) expect_equal(op, reference, {at::randn({2, rows, 40}), at::randn({24, 40}), at::randn({24})}, dtype);
  }
  // A view whose rows are not adjacent, and a frozen weight: only x has a gradient.
  auto base = at::randn({2, 40, 64});
  auto weight = at::randn({24, 32}), bias = at::randn({24});
  auto x = base.narrow(2, 16, 32).detach().set_requires_grad(true);
  auto y = kernels::linear(x, weight, bias);
  EXPECT_LE(relative_error(y.detach(), at::linear(x.detach().to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble))), 1e-5);
  auto dx = torch::autograd::grad({y}, {x}, {at::ones_like(y)})[0];
  EXPECT_LE(relative_error(dx, weight.to(at::kDouble).sum(0).expand(x.sizes())), 1e-5);
}

TEST(FusedOperators, GeluTanh) {
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    Tensors inputs{at::cat({at::linspace(-12, 12, 5003), at::tensor({-1e4, -90.0, 0.0, 90.0, 1e4}).to(at::kFloat)})};
    expect_equal([](const Tensors& in) { return kernels::gelu_tanh(in[0]); }, [](const Tensors& in) { return at::gelu(in[0], "tanh"); },
                 inputs, dtype);
  }
  auto small = at::linspace(-3, 3, 4001);
  EXPECT_LE(relative_error(kernels::gelu_tanh_cpu(small), at::gelu(small.to(at::kDouble), "tanh")), 2e-7);
  EXPECT_TRUE(kernels::gelu_tanh_cpu(at::full({3}, NAN)).isnan().all().item<bool>());
}

TEST(FusedOperators, WhatDoesNotFitGoesToTheReference) {
  auto x = at::randn({2, 6, 8}).transpose(0, 1);
  auto modulation = at::randn({6, 8});
  EXPECT_FALSE(kernels::modulated_norm_fits_cpu(x, modulation, modulation));
  EXPECT_TRUE(at::allclose(kernels::modulated_norm(x, modulation, modulation, 1e-6),
                           kernels::modulated_norm_reference(x, modulation, modulation, 1e-6)));
}
