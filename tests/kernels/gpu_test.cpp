// Operators on tensors that stand for a GPU's: in a build with CUDA every launch is checked against the kernel's own list of arguments.
#include "kernels/channel_gain/gpu.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "kernels/adamw_8bit/gpu.h"
#include "kernels/channel_gain/channel_gain.h"
#include "kernels/gated_residual/gpu.h"
#include "kernels/geglu/geglu.h"
#include "kernels/geglu/gpu.h"
#include "kernels/gelu_tanh/gelu_tanh.h"
#include "kernels/gelu_tanh/gpu.h"
#include "kernels/group_norm_silu/gpu.h"
#include "kernels/group_norm_silu/group_norm_silu.h"
#include "kernels/int8_product/int8_product.h"
#include "kernels/launch.h"
#include "kernels/low_rank/gpu.h"
#include "kernels/low_rank/low_rank.h"
#include "kernels/modulated_norm/gpu.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "kernels/place.h"
#include "kernels/qk_norm_rope/gpu.h"
#include "kernels/quantize_rows/quantize_rows.h"
#include "kernels/rotate/rotate.h"
#include "kernels/rounding/gpu.h"
#include "kernels/scaled_sums/scaled_sums.h"
#include "kernels/unpack/gpu.h"
#include "kernels/unpack/unpack.h"

using namespace burnish;

namespace {

using Tensors = std::vector<at::Tensor>;

class GpuOperators : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (kernels::binaries().empty()) GTEST_SKIP() << "a build without CUDA holds no kernels";
  }

  at::Tensor drawn(at::IntArrayRef shape) const { return at::empty(shape, at::device(at::kMeta).dtype(GetParam())); }

  /// Runs the operator and its gradient for all inputs; shapes and dtypes have to be theirs.
  void run(const std::function<at::Tensor(const Tensors&)>& op, const Tensors& inputs) {
    Tensors leaves;
    for (const auto& input : inputs) leaves.push_back(input.detach().set_requires_grad(true));
    auto y = op(leaves);
    auto gradients = torch::autograd::grad({y}, leaves, {at::empty_like(y)});
    for (size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_EQ(gradients[i].sizes(), leaves[i].sizes()) << "input " << i;
      EXPECT_EQ(gradients[i].scalar_type(), leaves[i].scalar_type()) << "input " << i;
    }
  }

  kernels::StandIn gpu_{c10::Device(c10::kCUDA, 0)};
};

}  // namespace

TEST_P(GpuOperators, ModulatedNorm) {
  for (int64_t width : {64, 3072, 8192}) {
    auto modulation = drawn({2, 6 * width}).chunk(6, -1);
    Tensors inputs{drawn({2, 41, width}), modulation[1], modulation[0]};
    ASSERT_TRUE(kernels::modulated_norm_fits_gpu(inputs[0], inputs[1], inputs[2]));
    run([](const Tensors& in) { return kernels::modulated_norm_gpu(in[0], in[1], in[2], 1e-6); }, inputs);
  }
  auto fits = [&](int64_t width) { return kernels::modulated_norm_fits_gpu(drawn({2, 3, width}), drawn({2, width}), drawn({2, width})); };
  EXPECT_FALSE(fits(8));     // which vector loads do not divide
  EXPECT_FALSE(fits(8208));  // which no block holds
}

TEST_P(GpuOperators, QkNormRope) {
  for (int64_t width : {64, 128}) {
    for (const auto& table : {drawn({41, width / 2}).to(at::kFloat), drawn({2, 41, width / 2}).to(at::kFloat)}) {
      Tensors inputs{drawn({2, 41, 24, width}), drawn({width})};
      ASSERT_TRUE(kernels::qk_norm_rope_fits_gpu(inputs[0], inputs[1], table, table));
      run([&](const Tensors& in) { return kernels::qk_norm_rope_gpu(in[0], in[1], table, table, 1e-6); }, inputs);
      auto frozen = inputs[1];
      run([&](const Tensors& in) { return kernels::qk_norm_rope_gpu(in[0], frozen, table, table, 1e-6); }, {inputs[0]});
    }
  }
  for (int64_t heads : {12, 24, 40}) {  // normed together, as Wan's are
    auto table = drawn({41, 64}).to(at::kFloat);
    Tensors inputs{drawn({2, 41, heads, 128}), drawn({heads, 128})};
    ASSERT_TRUE(kernels::qk_norm_rope_fits_gpu(inputs[0], inputs[1], table, table));
    run([&](const Tensors& in) { return kernels::qk_norm_rope_gpu(in[0], in[1], table, table, 1e-6); }, inputs);
  }
  auto table = drawn({3, 20}).to(at::kFloat);
  EXPECT_FALSE(kernels::qk_norm_rope_fits_gpu(drawn({2, 3, 4, 40}), drawn({40}), table, table));
}

TEST_P(GpuOperators, GatedResidual) {
  for (int64_t width : {64, 3072}) {
    Tensors inputs{drawn({2, 41, width}), drawn({2, 3 * width}).chunk(3, -1)[2], drawn({2, 41, width})};
    ASSERT_TRUE(kernels::gated_residual_fits_gpu(inputs[0], inputs[1], inputs[2]));
    run([](const Tensors& in) { return kernels::gated_residual_gpu(in[0], in[1], in[2]); }, inputs);
    run([&](const Tensors& in) { return kernels::gated_residual_gpu(in[0], inputs[1], in[1]); }, {inputs[0], inputs[2]});
  }
  EXPECT_FALSE(kernels::gated_residual_fits_gpu(drawn({2, 3, 8}), drawn({2, 8}), drawn({2, 3, 8})));
}

TEST_P(GpuOperators, Gelu) {
  ASSERT_TRUE(kernels::gelu_tanh_fits_gpu(drawn({3, 5, 16})));
  EXPECT_FALSE(kernels::gelu_tanh_fits_gpu(drawn({3, 5})));
  run([](const Tensors& in) { return kernels::gelu_tanh(in[0]); }, {drawn({3, 5, 160})});
  ASSERT_TRUE(kernels::geglu_fits_gpu(drawn({3, 5, 64})));
  EXPECT_FALSE(kernels::geglu_fits_gpu(drawn({3, 5, 48})));
  run([](const Tensors& in) { return kernels::geglu(in[0]); }, {drawn({3, 5, 2560})});
}

TEST_P(GpuOperators, GroupNormSilu) {
  Tensors inputs{drawn({2, 24, 8, 10}), drawn({24}), drawn({24})};
  ASSERT_TRUE(kernels::group_norm_silu_fits_gpu(inputs[0], 4, inputs[1], inputs[2]));
  run([](const Tensors& in) { return kernels::group_norm_silu(in[0], 4, in[1], in[2], 1e-5); }, inputs);
  EXPECT_FALSE(kernels::group_norm_silu_fits_gpu(drawn({2, 24, 3, 3}), 4, inputs[1], inputs[2]));
  EXPECT_FALSE(kernels::group_norm_silu_fits_gpu(drawn({1, 258, 4, 4}), 2, drawn({258}), drawn({258})));
}

TEST_P(GpuOperators, ChannelGain) {
  auto gain = drawn({48}).to(at::kFloat);
  ASSERT_TRUE(kernels::channel_gain_fits_gpu(drawn({3, 5, 48}), gain));
  EXPECT_FALSE(kernels::channel_gain_fits_gpu(drawn({3, 5, 20}), drawn({20}).to(at::kFloat)));
  for (const auto& fixed : {at::Tensor(), drawn({48})})
    run([&](const Tensors& in) { return kernels::channel_gain_(in[0].clone(), in[1], fixed); }, {drawn({3, 5, 48}), gain});
  run([](const Tensors& in) { return kernels::input_gain(in[0], in[1]); }, {drawn({3, 5, 48}), gain});
}

TEST_P(GpuOperators, LowRank) {
  const auto dy = drawn({2, 40, 160});
  const int64_t most = GetParam() == at::kFloat ? 16 : 32;
  for (int64_t rank : {int64_t{3}, most}) {
    const auto h = drawn({2, 40, rank + 16}).narrow(-1, 0, rank);
    ASSERT_TRUE(kernels::factor_gradients_fit_gpu(dy, drawn({160, rank}), h)) << rank;
    const auto [dh, db] = kernels::factor_gradients_gpu(dy, drawn({160, rank}), h, 0.5, at::kFloat);
    EXPECT_EQ(dh.sizes(), h.sizes());
    EXPECT_EQ(dh.scalar_type(), GetParam());
    EXPECT_EQ(db.scalar_type(), at::kFloat);
    EXPECT_EQ(db.sizes(), (at::IntArrayRef{160, rank}));
  }
  EXPECT_FALSE(kernels::factor_gradients_fit_gpu(dy, drawn({160, most + 1}), drawn({2, 40, most + 1})));
  EXPECT_FALSE(kernels::factor_gradients_fit_gpu(drawn({2, 3, 160}), drawn({160, 16}), drawn({2, 3, 16})));
  auto fp32 = [](const at::Tensor& t) { return t.to(at::kFloat); };
  run([&](const Tensors& in) { return kernels::add_low_rank(in[0], in[1], in[2], in[3], 0.5); },
      {dy, drawn({2, 40, 48}), fp32(drawn({16, 48})), fp32(drawn({160, 16}))});
}

TEST_P(GpuOperators, Unpack) {
  auto fits = [&](CodeKind kind, int64_t bytes, int64_t groups, int64_t group, int64_t in) {
    auto codes = at::empty({6, bytes}, at::device(at::kMeta).dtype(at::kByte));
    auto scales = at::empty({6, groups}, codes.options().dtype(at::kFloat));
    if (!kernels::unpack_fits_gpu(codes, kind, scales, group, in, GetParam())) return false;
    auto out = kernels::unpack(codes, kind, scales, group, in, GetParam());
    return out.sizes() == at::IntArrayRef{6, in} && out.scalar_type() == GetParam();
  };
  for (auto kind : {CodeKind::e4m3, CodeKind::e5m2, CodeKind::int8}) EXPECT_TRUE(fits(kind, 320, 1, 320, 320));
  EXPECT_TRUE(fits(CodeKind::e4m3, 320, 3, 128, 320));
  EXPECT_TRUE(fits(CodeKind::nf4, 160, 5, 64, 320));
  EXPECT_FALSE(fits(CodeKind::e4m3, 40, 1, 40, 40));
  EXPECT_FALSE(fits(CodeKind::e4m3, 320, 5, 64, 320));  // as many values a scale as no format has
}

TEST_P(GpuOperators, QuantizedRows) {
  for (const auto& gain : {at::Tensor(), drawn({48}).to(at::kFloat)}) {
    auto [codes, scales] = kernels::quantize_rows(drawn({5, 48}), gain, CodeKind::e4m3);
    EXPECT_EQ(codes.scalar_type(), at::kFloat8_e4m3fn);
    EXPECT_EQ(codes.sizes(), (at::IntArrayRef{5, 48}));
    EXPECT_EQ(scales.sizes(), (at::IntArrayRef{5, 1}));
  }
}

TEST_P(GpuOperators, ProductsOfInt8) {
  for (const auto& gain : {at::Tensor(), drawn({512}).to(at::kFloat)}) {
    auto [codes, scales] = kernels::quantize_rows(drawn({5, 512}), gain, CodeKind::int8, gain.defined() ? 0 : 256);
    EXPECT_EQ(codes.scalar_type(), at::kChar);
    EXPECT_EQ(codes.sizes(), (at::IntArrayRef{5, 512}));
    EXPECT_EQ(scales.sizes(), (at::IntArrayRef{5, 1}));
  }
  auto exact = [&](at::IntArrayRef sizes) { return drawn(sizes).to(at::kFloat); };
  auto sums = at::empty({5, 512}, at::device(at::kMeta).dtype(at::kInt)), y = drawn({5, 640}).narrow(1, 16, 512);
  for (bool adds : {false, true}) {
    kernels::scale_sums_(y, sums, {exact({5, 1}), exact({1, 512}), adds ? at::Tensor() : drawn({512})}, adds);
    kernels::scale_sums_(y, sums, {exact({5, 1}), {}, {}, 64}, adds);
  }
  kernels::rotate_(exact({5, 512}), 16);

  auto a = at::empty({5, 48}, sums.options().dtype(at::kChar)), b = at::empty({512, 48}, a.options());
  ASSERT_TRUE(kernels::int8_product_fits_gpu(a, b));
  EXPECT_FALSE(kernels::int8_product_fits_gpu(a.narrow(1, 0, 40), b.narrow(1, 0, 40)));
  kernels::int8_sums_gpu_(sums, a, b);
  EXPECT_EQ(kernels::scales_int8_product_gpu(y, {}), GetParam() == at::kBFloat16);
  EXPECT_FALSE(kernels::scales_int8_product_gpu(y, {.rotation = 64}));
  if (GetParam() != at::kBFloat16) return;
  for (const auto& scales :
       {kernels::Scales{exact({5, 1}), exact({1, 512}), drawn({512})}, {exact({5, 1}), exact({1, 512})}, {exact({5, 1})}})
    kernels::int8_product_gpu_(y, a, b, scales, /*adds=*/false);
  kernels::int8_product_gpu_(y, a, b, {exact({5, 1}), exact({1, 512})}, /*adds=*/true);
  kernels::int8_product_gpu_(y, a, b, {exact({5, 1})}, /*adds=*/true);
}

TEST_P(GpuOperators, UpdatesOfTrainedValues) {
  auto exact = drawn({512}).to(at::kFloat), rounded = drawn({512}).to(at::kBFloat16), bytes = drawn({512}).to(at::kByte);
  auto remainder = rounded.to(at::kShort);
  ASSERT_TRUE(kernels::rounding_fits_gpu({exact, rounded, remainder}));
  EXPECT_FALSE(kernels::rounding_fits_gpu({exact, rounded.narrow(0, 0, 500)}));
  kernels::round_stochastically_gpu(exact, rounded, 0xFFFFFFFF);
  kernels::round_to_e4m3_gpu(exact, bytes, 7);
  kernels::split_remainder_gpu(exact, rounded, remainder);
  kernels::join_remainder_gpu(rounded, remainder, exact);
  auto scales = drawn({2}).to(at::kFloat), map = drawn({256}).to(at::kFloat);
  const kernels::CodedMoment moment{bytes, scales, map, map.narrow(0, 0, 255)};
  ASSERT_TRUE(kernels::adamw_8bit_fits_gpu(exact, exact, moment, moment));
  EXPECT_FALSE(kernels::adamw_8bit_fits_gpu(rounded, exact, moment, moment));
  kernels::adamw_8bit_gpu(exact, exact, moment, moment, {1e-3, 0.9, 0.999, 1e-8, 0.01, 3});
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GpuOperators, testing::Values(at::kBFloat16, at::kFloat));
