#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "base/random_key.h"
#include "kernels/quantize_rows/quantize_rows.h"
#include "kernels/rotate/rotate.h"
#include "nn/linear.h"
#include "optim/averaged.h"
#include "optim/optimizer.h"
#include "quant/source.h"
#include "quant/store.h"
#include "quant/trained_codes.h"
#include "tests/allocations.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::quant;
using burnish::test::error_of;
using burnish::test::relative_error;

namespace {

const std::vector<std::string> kNames{"fp8", "fp8_tensor", "fp8_block", "fp8_plain", "fp8_e5m2", "int8", "int8_convrot", "nf4"};

/// Rows of very different sizes, as trained weights have; inside the range of unscaled FP8.
at::Tensor some_weight(int64_t out, int64_t in, uint64_t seed = 1) {
  at::manual_seed(seed);
  return at::randn({out, in}) * (at::rand({out, 1}) * 3 - 2).exp() * 0.1;
}

at::Tensor all_rows(const nn::WeightSource& source) { return source.rows(0, source.out_features()); }

}  // namespace

class EveryFormat : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Quant, EveryFormat, testing::ValuesIn(kNames), [](const auto& info) { return info.param; });

TEST_P(EveryFormat, RoundTripStaysWithinHalfAStep) {
  auto format = parse_format(GetParam());
  EXPECT_EQ(format_name(format), GetParam());
  for (auto [out, in] : {std::pair<int64_t, int64_t>{300, 200}, {128, 256}, {1, 64}, {7, 33}}) {
    auto w = some_weight(out, in);
    auto q = quantize(w, format, at::kCPU, "w");
    auto back = dequantize_rows(q, 0, out, at::kFloat);
    ASSERT_EQ(back.sizes(), w.sizes());
    EXPECT_EQ(q.num_bytes(), stored_bytes(format, out, in));
    if (q.rotation > 0) {  // what is rounded is rotated
      kernels::rotate_(w, q.rotation);
      kernels::rotate_(back, q.rotation);
    }
    auto row_most = w.abs().amax(1, true), most = w.abs().amax();
    // Half a step: 2^-4 relative for three mantissa bits, 2^-3 for two, plus half of the smallest step near zero.
    at::Tensor bound;
    switch (format.codes) {
      case CodeKind::e4m3:
        bound = w.abs() / 16 + (format.scaling == Scaling::none ? at::full({}, 1.0) : most / 448) * std::exp2(-10);
        break;
      case CodeKind::e5m2: bound = w.abs() / 8 + most * 1e-6; break;
      case CodeKind::int8:
      case CodeKind::int8_convrot: bound = row_most / 254 * 1.001; break;
      default: bound = row_most * 0.152; break;  // of NF4 half of the widest gap, between -1 and -0.696
    }
    EXPECT_LE(((back - w).abs() - bound).max().item<double>(), 1e-7) << out << "x" << in;
  }
}

TEST_P(EveryFormat, RowsAreTheSameInAnyTile) {
  auto q = quantize(some_weight(300, 200), parse_format(GetParam()), at::kCPU, "w");
  auto whole = dequantize_rows(q, 0, 300, at::kFloat);
  EXPECT_TRUE(at::equal(dequantize_rows(q, 130, 257, at::kFloat), whole.narrow(0, 130, 127)));
  EXPECT_TRUE(at::equal(dequantize_rows(q, 0, 300, at::kDouble).to(at::kFloat), whole));
}

TEST_P(EveryFormat, ProductsAndGradientsAreThoseOfTheUnpackedWeight) {
  auto w = some_weight(1300, 1000);  // several tiles
  auto source = std::make_shared<QuantizedSource>(quantize(w, parse_format(GetParam()), at::kCPU, "w"));
  ASSERT_LT(nn::tile_rows(source->in_features(), at::kCPU), 1300);
  auto exact = all_rows(*source).to(at::kDouble);
  at::manual_seed(3);
  for (int64_t length : {5, 9}) {  // as many rows as are multiplied with codes as they are read, and more
    auto x64 = at::randn({2, length, 1000}, at::kDouble), bias64 = at::randn({1300}, at::kDouble);
    auto dy64 = at::randn({2, length, 1300}, at::kDouble);
    for (auto [dtype, limit] : {std::pair{at::kDouble, 1e-12}, {at::kFloat, 1e-5}, {at::kBFloat16, 1e-2}, {at::kHalf, 2e-3}}) {
      auto x = x64.to(dtype, false, /*copy=*/true).requires_grad_(true);
      auto bias = bias64.to(dtype, false, true).requires_grad_(true);
      auto y = source->multiply(kernels::matrix_product(), x, bias);
      EXPECT_EQ(y.scalar_type(), dtype);
      torch::autograd::backward({y}, {dy64.to(dtype)});
      auto x_seen = x.detach().to(at::kDouble), dy_seen = dy64.to(dtype).to(at::kDouble);
      EXPECT_LE(relative_error(y, at::linear(x_seen, exact, bias.detach().to(at::kDouble))), limit) << dtype;
      EXPECT_LE(relative_error(x.grad(), at::matmul(dy_seen, exact)), limit) << dtype;
      EXPECT_LE(relative_error(bias.grad(), dy_seen.flatten(0, 1).sum(0)), limit) << dtype;
    }
  }
}

TEST_P(EveryFormat, ConvolutionsAndTheirGradientsAreThoseOfTheUnpackedWeight) {
  auto w = some_weight(300, 450 * 9);  // two tiles
  auto source = std::make_shared<QuantizedSource>(quantize(w, parse_format(GetParam()), at::kCPU, "w"));
  ASSERT_LT(nn::tile_rows(source->in_features(), at::kCPU), 300);
  auto exact = all_rows(*source).to(at::kDouble).view({300, 450, 3, 3});
  auto product = kernels::convolution(kernels::Window::cube(2, 3, 2, 1));
  at::manual_seed(3);
  auto x64 = at::randn({2, 450, 5, 4}, at::kDouble), bias64 = at::randn({300}, at::kDouble), dy64 = at::randn({2, 300, 3, 2}, at::kDouble);
  // ATen's convolution of bf16 rounds partial sums on aarch64: 0.011 was measured.
  for (auto [dtype, limit] : {std::pair{at::kFloat, 1e-5}, {at::kBFloat16, 1.5e-2}, {at::kHalf, 2e-3}}) {
    auto x = x64.to(dtype, false, /*copy=*/true).requires_grad_(true);
    auto bias = bias64.to(dtype, false, true).requires_grad_(true);
    auto y = source->multiply(product, x, bias);
    EXPECT_EQ(y.scalar_type(), dtype);
    torch::autograd::backward({y}, {dy64.to(dtype)});
    auto x_seen = x.detach().to(at::kDouble).requires_grad_(true), dy_seen = dy64.to(dtype).to(at::kDouble);
    auto y_seen = at::conv2d(x_seen, exact, bias.detach().to(at::kDouble), 2, 1);
    torch::autograd::backward({y_seen}, {dy_seen});
    EXPECT_LE(relative_error(y, y_seen), limit) << dtype;
    EXPECT_LE(relative_error(x.grad(), x_seen.grad()), limit) << dtype;
    EXPECT_LE(relative_error(bias.grad(), dy_seen.sum({0, 2, 3})), limit) << dtype;
  }
}

TEST_P(EveryFormat, QuantizingItsOwnRowsKeepsThem) {
  auto quantized = [&](const at::Tensor& w) { return all_rows(QuantizedSource(quantize(w, parse_format(GetParam()), at::kCPU, "w"))); };
  auto before = quantized(some_weight(200, 128));
  EXPECT_LE(relative_error(quantized(before), before), 1e-6);
  EXPECT_LE(relative_error(quantized(before * 2), before * 2), 1e-6);
}

TEST_P(EveryFormat, BadValuesAreReportedByName) {
  auto format = parse_format(GetParam());
  for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    auto w = some_weight(130, 70);
    w[129][69] = bad;
    auto text = error_of([&] { quantize(w, format, at::kCPU, "blocks.3.to_q.weight"); });
    EXPECT_NE(text.find("blocks.3.to_q.weight"), text.npos);
  }
  auto big = at::full({4, 4}, 449.0);
  if (format.scaling == Scaling::none) {
    auto text = error_of([&] { quantize(big, format, at::kCPU, "proj.weight"); });
    EXPECT_NE(text.find("proj.weight"), text.npos);
    EXPECT_NE(text.find("weight_format fp8"), text.npos);
  } else {
    EXPECT_LE(relative_error(dequantize_rows(quantize(big, format, at::kCPU, "w"), 0, 4, at::kFloat), big), 1e-6);
  }
}

TEST_P(EveryFormat, ZeroRowsStayZero) {
  auto w = some_weight(130, 70);
  w.narrow(0, 3, 2).zero_();
  auto back = dequantize_rows(quantize(w, parse_format(GetParam()), at::kCPU, "w"), 0, 130, at::kFloat);
  EXPECT_EQ(back.narrow(0, 3, 2).abs().max().item<double>(), 0);
}

TEST(Formats, ScalesBeatAPlainCastOnSmallWeights) {
  auto w = some_weight(256, 256) * 0.01;
  auto error = [&](const char* name) {
    return (dequantize_rows(quantize(w, parse_format(name), at::kCPU, "w"), 0, 256, at::kFloat) - w).norm().item<double>();
  };
  EXPECT_LT(error("fp8") * 3, error("fp8_plain"));
  EXPECT_LE(error("fp8"), error("fp8_tensor"));
  EXPECT_LT(error("int8"), error("fp8"));
}

TEST(Formats, RotatedRowsKeepTheirNumbersBesideOnesThatAreFarLarger) {
  auto w = at::randn({64, 512});
  w.select(1, 100).mul_(30);
  auto error = [&](const char* name) {
    return relative_error(dequantize_rows(quantize(w, parse_format(name), at::kCPU, "w"), 0, 64, at::kFloat), w);
  };
  EXPECT_LT(error("int8_convrot") * 2, error("int8"));
}

TEST(Formats, RotationIsTheLargestOf256ThatDividesARow) {
  const auto format = parse_format("int8_convrot");
  for (auto [in, rotation] : {std::pair<int64_t, int64_t>{3072, 256}, {320, 64}, {640, 64}, {1280, 256}, {48, 16}, {200, 0}, {8, 0}}) {
    EXPECT_EQ(rotation_of(format, in), rotation) << in;
    EXPECT_EQ(rotation_of(parse_format("int8"), in), 0);
    EXPECT_EQ(quantize(some_weight(3, in), format, at::kCPU, "w").rotation, rotation) << in;
  }
}

TEST(Formats, UnknownNameListsTheKnownOnes) {
  auto text = error_of([] { parse_format("fp9"); }, Exit::config);
  for (const auto& name : kNames) EXPECT_NE(text.find(name), text.npos) << name;
}

namespace {

Codes codes_in_file(const at::Tensor& fp8, const at::Tensor& scales = {}) {
  auto kind = fp8.scalar_type() == at::kFloat8_e4m3fn ? CodeKind::e4m3 : CodeKind::e5m2;
  return {.kind = kind, .codes = fp8.view(at::kByte), .scales = scales, .sizes = fp8.sizes().vec()};
}

}  // namespace

TEST(FileCodes, AreTakenAsTheyAre) {
  auto codes = some_weight(40, 24).to(at::kFloat8_e4m3fn);
  auto plain = from_codes(codes_in_file(codes), at::kCPU, "w");
  EXPECT_EQ(plain.format.scaling, Scaling::none);
  EXPECT_TRUE(at::equal(dequantize_rows(plain, 0, 40, at::kFloat), codes.to(at::kFloat)));
  auto scaled = from_codes(codes_in_file(codes, at::full({1, 1}, 0.25)), at::kCPU, "w");
  EXPECT_EQ(scaled.format.scaling, Scaling::tensor);
  EXPECT_TRUE(at::equal(dequantize_rows(scaled, 0, 40, at::kFloat), codes.to(at::kFloat) * 0.25));
  auto by_row = at::rand({40, 1});
  EXPECT_TRUE(at::equal(dequantize_rows(from_codes(codes_in_file(codes, by_row), at::kCPU, "w"), 0, 40, at::kFloat),
                        codes.to(at::kFloat) * by_row));
  auto e5m2 = some_weight(40, 24).to(at::kFloat8_e5m2);
  EXPECT_TRUE(at::equal(dequantize_rows(from_codes(codes_in_file(e5m2), at::kCPU, "w"), 0, 40, at::kFloat), e5m2.to(at::kFloat)));
  auto damaged = codes.clone();
  damaged.view(at::kByte)[39][23] = 0x7f;
  EXPECT_NE(error_of([&] { from_codes(codes_in_file(damaged), at::kCPU, "a.weight"); }).find("'a.weight' holds NaN"), std::string::npos);
  EXPECT_NE(error_of([&] {
              from_codes(codes_in_file(codes, at::full({1, 1}, HUGE_VAL)), at::kCPU, "a.weight");
            }).find("scale"),
            std::string::npos);
}

TEST(FileCodes, OfAllKindsMultiplyAsTheirNumbers) {
  at::manual_seed(0);
  for (int i = 0; i <= static_cast<int>(kLastKind); ++i) {
    const auto kind = static_cast<CodeKind>(i);
    const int64_t out = 600, in = 512;  // more rows than one tile has
    auto codes = codes_on_meta(kind, {out, in});
    codes.codes = at::randint(0, 64, codes.codes.sizes(), at::kByte);  // so that no fp16 number among them is NaN
    if (codes.scales.defined()) codes.scales = at::rand(codes.scales.sizes());
    if (is_rotated(kind)) codes.rotation = 256;
    auto weight = from_codes(codes, at::kCPU, "w");
    EXPECT_EQ(weight.num_bytes(), stored_bytes(weight.format, out, in)) << describe(weight.format);
    auto numbers = dequantize_rows(weight, 0, out, at::kFloat);
    EXPECT_TRUE(at::equal(dequantize_rows(from_codes(codes.rows(300, 7), at::kCPU, "w"), 0, 7, at::kFloat), numbers.narrow(0, 300, 7)));
    nn::Linear coded(in, out, at::TensorOptions()), plain(in, out, at::TensorOptions());
    coded.bias.zero_();
    plain.bias.zero_();
    plain.weight = numbers;
    coded.set_source(std::make_shared<QuantizedSource>(weight));
    auto x = at::randn({3, in}).set_requires_grad(true), y = x.detach().clone().set_requires_grad(true);
    auto a = coded.forward(x), b = plain.forward(y);
    EXPECT_LE(relative_error(a, b), 1e-5) << describe(weight.format);
    a.sum().backward();
    b.sum().backward();
    EXPECT_LE(relative_error(x.grad(), y.grad()), 1e-5) << describe(weight.format);
  }
}

TEST(StoredLinear, IsNoParameterAndIsCounted) {
  nn::Linear linear(64, 128, at::TensorOptions());
  linear.weight = some_weight(128, 64);
  linear.bias.zero_();
  auto x = at::randn({3, 64});
  auto before = linear.forward(x);
  Store store({.format = parse_format("fp8"), .high_precision = {"out", "blocks\\..*\\.norm"}});
  EXPECT_EQ(store.store("out.weight", {.numbers = linear.weight}, at::kCPU), nullptr);
  EXPECT_EQ(store.store("blocks.1.norm.weight", {.numbers = linear.weight}, at::kCPU), nullptr);
  EXPECT_EQ(store.num_bytes("out.weight", {.numbers = linear.weight}), -1);
  auto source = store.store("blocks.1.out.weight", {.numbers = linear.weight}, at::kCPU);
  const auto expected = store.num_bytes("blocks.1.out.weight", {.numbers = linear.weight});
  linear.set_source(source);
  EXPECT_EQ(linear.parameters().size(), 1u);
  EXPECT_EQ(linear.num_bytes(), 128 * 4 + expected);
  EXPECT_LE(relative_error(linear.forward(x), before), 0.05);
  EXPECT_EQ(store.settings(), "stored as fp8 except out, blocks\\..*\\.norm");  // a cache of what encoders make hangs on it
  Store as_in_file({});
  EXPECT_EQ(as_in_file.settings(), "");
  auto weight = some_weight(8, 8);
  EXPECT_EQ(as_in_file.store("a.weight", {.numbers = weight}, at::kCPU), nullptr);
  EXPECT_NE(as_in_file.store("a.weight", {.codes = codes_in_file(weight.to(at::kFloat8_e4m3fn))}, at::kCPU), nullptr);
  // One that was changed since it was read as FP8 is FP8 again, with scales for what the change may have made large.
  auto changed = as_in_file.store("a.weight", {.numbers = weight * 1000, .in_file = CodeKind::e4m3}, at::kCPU);
  ASSERT_NE(changed, nullptr);
  EXPECT_LE(relative_error(all_rows(*changed), weight * 1000), 0.05);
  // Of four bits, which have no place for a small change, one is held in eight.
  auto in_eight = as_in_file.store("a.weight", {.numbers = weight, .in_file = CodeKind::q4_k}, at::kCPU);
  EXPECT_LE(relative_error(all_rows(*in_eight), weight), 0.01);
  // What was rotated is rotated again.
  auto rotated = as_in_file.store("a.weight", {.numbers = some_weight(8, 64), .in_file = CodeKind::int4_convrot}, at::kCPU);
  EXPECT_EQ(dynamic_cast<const QuantizedSource&>(*rotated).weight().rotation, 64);
}

TEST(Memory, NoStepHoldsMoreThanOneUnpackedTile) {
  // W is 8 M elements; a tile has a quarter of a million, 1 MB in fp32.
  const int64_t out = 4096, in = 2048, tile = 1 << 18;
  auto w = some_weight(out, in).to(at::kBFloat16);
  for (const auto& name : kNames) {
    std::shared_ptr<QuantizedSource> source;
    {
      test::Allocations loading;
      source = std::make_shared<QuantizedSource>(quantize(w, parse_format(name), at::kCPU, "w"));
      EXPECT_LE(loading.peak(), source->num_bytes() + 5 * 4 * tile) << name << ": quantizing holds whole copies";
      EXPECT_LE(loading.largest(), std::max<int64_t>(source->num_bytes(), 4 * tile)) << name;
    }
    for (auto dtype : {at::kFloat, at::kBFloat16}) {
      auto x = at::randn({4, in}).to(dtype).requires_grad_(true);
      test::Allocations step;
      auto y = source->multiply(kernels::matrix_product(), x, {});
      EXPECT_LE(step.live(), static_cast<int64_t>(y.nbytes()) + 4096) << name << ": autograd keeps an unpacked weight";
      torch::autograd::backward({y}, {at::ones_like(y)});
      // Beside a tile of fp32 there is what oneDNN works in, which on processors with AMX is as large again and a half.
      EXPECT_LE(step.largest(), 3 * 4 * tile) << name << ": more than a tile was unpacked";
      EXPECT_LE(step.peak(), 3 * 4 * tile) << name << ": tiles pile up";
    }
  }
}

TEST(Fp8Compute, IsTheProductOfQuantizedRows) {
  for (const char* name : {"fp8", "fp8_tensor", "fp8_plain"}) {
    auto source = std::make_shared<Fp8ComputeSource>(quantize(some_weight(1300, 1000), parse_format(name), at::kCPU, "w"));
    auto w = all_rows(*source).to(at::kDouble);
    at::manual_seed(5);
    auto x = (at::randn({6, 1000}) * at::rand({6, 1})).requires_grad_(true);
    auto bias = at::randn({1300}), dy = at::randn({6, 1300});
    auto y = source->multiply(kernels::matrix_product(), x, bias);
    torch::autograd::backward({y}, {dy});
    auto seen = kernels::quantize_rows(x.detach(), {}, CodeKind::e4m3);
    auto expected = at::mm(seen.codes_NI.to(at::kDouble) * seen.scales_N1, w.t()) + bias;
    EXPECT_LE(relative_error(y, expected), 1e-5) << name;
    auto codes = dequantize_rows(source->weight(), 0, 1300, at::kFloat, false).to(at::kDouble);
    auto scaled = kernels::quantize_rows(dy, source->weight().scales.expand({1300, 1}).select(1, 0), CodeKind::e4m3);
    EXPECT_LE(relative_error(x.grad(), at::mm(scaled.codes_NI.to(at::kDouble) * scaled.scales_N1, codes)), 1e-5) << name;
    // Three mantissa bits in x and dy cost a few percent, not more.
    EXPECT_LE(relative_error(y, at::linear(x.detach().to(at::kDouble), w, bias.to(at::kDouble))), 0.04) << name;
    EXPECT_LE(relative_error(x.grad(), at::mm(dy.to(at::kDouble), w)), 0.04) << name;
  }
  EXPECT_NE(
      error_of([] { Store bad({.format = parse_format("nf4"), .high_precision = {}, .fp8_compute = true}); }, Exit::config).find("NF4"),
      std::string::npos);
}

namespace {

at::Tensor rotated(const at::Tensor& rows, int64_t group) {
  auto turned = rows.to(at::kFloat).contiguous().clone();
  if (group > 0) kernels::rotate_(turned, group);
  return turned.to(rows.scalar_type());
}

/// What INT8 products of a weight come to, in fp64.
struct ExactInt8 {
  const QuantizedSource& source;
  at::Tensor codes() const { return dequantize_rows(source.weight(), 0, source.out_features(), at::kFloat, false).to(at::kDouble); }
  at::Tensor scales() const { return source.weight().scales.expand({source.out_features(), 1}); }
  at::Tensor y(const at::Tensor& x) const {
    auto [rows, row_scales] = kernels::quantize_rows(x.detach().flatten(0, -2), {}, CodeKind::int8, source.weight().rotation);
    return at::mm(rows.to(at::kDouble) * row_scales, (codes() * scales()).t()).view({x.size(0), x.size(1), -1});
  }
  at::Tensor dx(const at::Tensor& dy) const {
    auto [rows, row_scales] = kernels::quantize_rows(dy.flatten(0, -2), scales().select(1, 0), CodeKind::int8);
    return rotated(at::mm(rows.to(at::kDouble) * row_scales, codes()), source.weight().rotation).view({dy.size(0), dy.size(1), -1});
  }
};

std::shared_ptr<Int8ComputeSource> int8_source(int64_t out, int64_t in, Format format = {CodeKind::int8, Scaling::row}) {
  return std::make_shared<Int8ComputeSource>(quantize(some_weight(out, in), format, at::kCPU, "w"));
}

}  // namespace

TEST(Int8Compute, IsTheProductOfQuantizedRows) {
  for (auto format : {Format{CodeKind::int8, Scaling::row}, {CodeKind::int8, Scaling::tensor}, {CodeKind::int8_convrot, Scaling::row}}) {
    for (auto [out, in] : {std::pair<int64_t, int64_t>{700, 1040}, {17, 3}, {512, 512}}) {
      auto source = int8_source(out, in, format);
      const ExactInt8 exact{*source};
      auto w = all_rows(*source).to(at::kDouble);
      at::manual_seed(5);
      for (auto dtype : {at::kFloat, at::kBFloat16}) {
        const double limit = dtype == at::kFloat ? 1e-6 : 4e-3;
        auto x = (at::randn({2, 150, in}) * at::rand({150, 1})).to(dtype).requires_grad_(true);
        auto bias = at::randn({out}).to(dtype), dy = at::randn({2, 150, out}).to(dtype);
        auto y = source->multiply(kernels::matrix_product(), x, bias);
        EXPECT_EQ(y.scalar_type(), dtype);
        torch::autograd::backward({y}, {dy});
        EXPECT_LE(relative_error(y, exact.y(x) + bias), limit);
        EXPECT_LE(relative_error(x.grad(), exact.dx(dy)), limit);
        // Seven bits in x and dy cost less than FP8's three.
        EXPECT_LE(relative_error(y, at::linear(x.detach().to(at::kDouble), w, bias.to(at::kDouble))), 0.015);
        EXPECT_LE(relative_error(x.grad(), at::matmul(dy.to(at::kDouble), w)), 0.025);
      }
    }
  }
}

TEST(Int8Compute, AddsToWhatIsThere) {
  auto source = int8_source(700, 520);
  const ExactInt8 exact{*source};
  const auto product = kernels::matrix_product();
  at::manual_seed(6);
  auto x = at::randn({2, 40, 520}), dy = at::randn({2, 40, 700}), y = at::randn({2, 40, 700}), dx = at::randn({2, 40, 520});
  auto y_before = y.clone(), dx_before = dx.clone();
  source->add_(*product, y, x);
  source->add_input_gradient_(*product, dx, dy);
  EXPECT_LE(relative_error(y, exact.y(x) + y_before), 1e-6);
  EXPECT_LE(relative_error(dx, exact.dx(dy) + dx_before), 1e-6);
  // A sum may be wider than what is multiplied.
  auto wide = dx_before.clone(), narrow = dy.to(at::kHalf);
  source->add_input_gradient_(*product, wide, narrow);
  EXPECT_LE(relative_error(wide, exact.dx(narrow) + dx_before), 1e-6);
}

TEST(Int8Compute, RotationKeepsWhatOneLargeColumnWouldDrown) {
  at::manual_seed(7);
  auto w = at::randn({256, 512}), x = at::randn({40, 512});
  x.select(1, 9).mul_(100);
  auto error = [&](CodeKind kind) {
    auto source = std::make_shared<Int8ComputeSource>(quantize(w, {kind, Scaling::row}, at::kCPU, "w"));
    return relative_error(source->multiply(kernels::matrix_product(), x, {}), at::mm(x, w.t()).to(at::kDouble));
  };
  EXPECT_LT(error(CodeKind::int8_convrot) * 1.5, error(CodeKind::int8));
}

TEST(Int8Compute, FewRowsAreMultipliedAsTheyAre) {
  auto source = int8_source(300, 200);
  auto w = all_rows(*source).to(at::kDouble);
  auto x = at::randn({16, 200}).requires_grad_(true), dy = at::randn({16, 300});
  auto y = source->multiply(kernels::matrix_product(), x, {});
  torch::autograd::backward({y}, {dy});
  EXPECT_LE(relative_error(y, at::mm(x.detach().to(at::kDouble), w.t())), 1e-6);
  EXPECT_LE(relative_error(x.grad(), at::mm(dy.to(at::kDouble), w)), 3e-6);
  auto more = at::randn({17, 200});
  EXPECT_GE(relative_error(source->multiply(kernels::matrix_product(), more, {}), at::mm(more.to(at::kDouble), w.t())), 1e-3);
}

TEST(Int8Compute, SumsAreExactAtTheirLargest) {
  // 127 · 127 · 15360 has 28 bits, of which fp32 would lose four; in pairs of 16 bits it would overflow.
  QuantizedWeight weight{{CodeKind::int8, Scaling::row}, at::full({20, 15360}, 127, at::kByte), at::ones({20, 1}), 20, 15360};
  weight.codes.select(0, 3).fill_(static_cast<uint8_t>(-127));
  weight.codes.select(0, 4).select(0, 0).fill_(126);
  auto source = std::make_shared<Int8ComputeSource>(weight);
  auto y = source->multiply(kernels::matrix_product(), at::full({32, 15360}, 127.0f), {});
  const double most = 127.0 * 127 * 15360;
  EXPECT_NEAR(y[0][0].item<double>() / most, 1, 1e-6);
  EXPECT_NEAR(y[0][3].item<double>() / -most, 1, 1e-6);
  EXPECT_LE(y[0][4].item<double>(), y[0][0].item<double>());
}

TEST(Int8Compute, HoldsATileOfSumsAtMost) {
  const int64_t rows = 2048, out = 4096, in = 1024, tile = 4 * 512 * 1024;
  auto source = int8_source(out, in);
  auto product = kernels::matrix_product();
  auto x = at::randn({rows, in}).to(at::kBFloat16).requires_grad_(true);
  if (!source->adds(*product, x)) GTEST_SKIP() << "this processor multiplies the codes in fp32";
  auto dy = at::randn({rows, out}).to(at::kBFloat16);
  test::Allocations step;
  auto y = source->multiply(product, x, {});
  EXPECT_LE(step.live(), static_cast<int64_t>(y.nbytes()) + 4096) << "autograd keeps rows of codes";
  EXPECT_LE(step.peak(), static_cast<int64_t>(y.nbytes()) + rows * (in + 4) + tile + tile / 2);
  torch::autograd::backward({y}, {dy});
  EXPECT_LE(step.peak(), static_cast<int64_t>(y.nbytes()) + 2 * rows * in + rows * (out + 4) + tile + tile / 2);
}

TEST(Int8Compute, IsRefusedForOtherCodes) {
  auto refusal = [](const char* format) {
    return error_of([&] { Store bad({.format = parse_format(format), .high_precision = {}, .int8_compute = true}); }, Exit::config);
  };
  EXPECT_NE(refusal("fp8").find("choose weight_format int8"), std::string::npos);
  EXPECT_NE(refusal("nf4").find("NF4"), std::string::npos);
  Store store({.format = parse_format("int8"), .high_precision = {}, .int8_compute = true});
  auto made = [&](const at::Tensor& numbers) { return store.store("a.weight", {.numbers = numbers}, at::kCPU); };
  EXPECT_NE(std::dynamic_pointer_cast<Int8ComputeSource>(made(at::randn({8, 4}))), nullptr);
  EXPECT_EQ(std::dynamic_pointer_cast<Int8ComputeSource>(made(at::randn({8, 4, 3, 3}))), nullptr);
  EXPECT_NE(store.settings().find("int8_compute"), std::string::npos);
}

namespace {

/// A weight as files have it in MXFP8 or NVFP4: codes, and scales in fp32.
QuantizedWeight in_blocks(const at::Tensor& weight, CodeKind kind) {
  const auto coded = kernels::quantize_blocks(weight, kind);
  const auto group = code_block(kind).group;
  return {{kind, Scaling::row_block, group},
          coded.codes_NI,
          kernels::scales_of(coded, weight.size(0), weight.size(1) / group),
          weight.size(0),
          weight.size(1)};
}

}  // namespace

TEST(BlockCompute, IsTheProductOfTheRoundedNumbers) {
  for (auto kind : {CodeKind::mxfp8, CodeKind::e2m1}) {
    const auto weight = in_blocks(some_weight(96, 64), kind);
    ASSERT_TRUE(BlockComputeSource::can_compute(weight));
    auto source = std::make_shared<BlockComputeSource>(weight);
    const auto w = all_rows(*source).to(at::kDouble), bias = at::randn({96});
    auto x = at::randn({2, 20, 64}).requires_grad_(true), dy = at::randn({2, 20, 96});
    const auto rounded = all_rows(QuantizedSource(in_blocks(x.detach().view({40, 64}), kind))).to(at::kDouble);
    EXPECT_GE(relative_error(rounded, x.detach().view({40, 64})), 1e-2);
    auto y = source->multiply(kernels::matrix_product(), x, bias);
    EXPECT_LE(relative_error(y, (at::mm(rounded, w.t()) + bias).view({2, 20, 96})), 1e-6);
    torch::autograd::backward({y}, {dy});
    EXPECT_LE(relative_error(x.grad(), at::matmul(dy.to(at::kDouble), w)), 3e-6) << "the input's gradient is of the unpacked weight";
    auto few = at::randn({16, 64});
    EXPECT_LE(relative_error(source->multiply(kernels::matrix_product(), few, {}), at::mm(few.to(at::kDouble), w.t())), 1e-6);
  }
}

TEST(BlockCompute, IsLeftToWeightsWhoseScalesAreBytes) {
  auto weight = in_blocks(some_weight(96, 64), CodeKind::e2m1);
  EXPECT_TRUE(BlockComputeSource::can_compute(weight));
  weight.scales.mul_(0.37).narrow(0, 0, 90).mul_(0.5);  // as where the largest number lies in another weight, which shares the scale
  EXPECT_TRUE(BlockComputeSource::can_compute(weight));
  weight.scales.narrow(0, 0, 48).mul_(1.013);  // rows of two weights
  EXPECT_FALSE(BlockComputeSource::can_compute(weight));
  EXPECT_FALSE(BlockComputeSource::can_compute(in_blocks(some_weight(40, 64), CodeKind::mxfp8)));
  EXPECT_FALSE(BlockComputeSource::can_compute(quantize(some_weight(64, 64), parse_format("nf4"), at::kCPU, "w")));
}

TEST(BlockCompute, IsWhatAStoreMakesOfFilesThatHaveThem) {
  const auto store = [](CodeKind kind, bool fp8, bool fp4) {
    const auto weight = in_blocks(some_weight(96, 64), kind);
    const Codes codes{.kind = kind, .codes = weight.codes, .scales = weight.scales, .sizes = {96, 64}, .group = weight.format.group};
    Store made({.format = {}, .high_precision = {}, .fp8_compute = fp8, .fp4_compute = fp4});
    return std::dynamic_pointer_cast<BlockComputeSource>(made.store("a.weight", {.codes = codes}, at::kCPU)) != nullptr;
  };
  EXPECT_TRUE(store(CodeKind::mxfp8, true, false));
  EXPECT_FALSE(store(CodeKind::mxfp8, false, true));
  EXPECT_TRUE(store(CodeKind::e2m1, false, true));
  EXPECT_FALSE(store(CodeKind::e2m1, true, false));
}

namespace {

/// A layer whose weight trains as codes, as a model's are when they are loaded.
struct TrainedLayer {
  nn::Linear layer;
  TrainedLayer(const at::Tensor& weight, bool fp8_compute, c10::ScalarType gradients = at::kFloat)
      : layer(weight.size(1), weight.size(0), at::TensorOptions().device(at::kMeta)) {
    Store store({.format = {}, .high_precision = {}, .fp8_compute = fp8_compute, .trained = {""}, .gradient_dtype = gradients});
    layer.set_source(store.store("weight", {.numbers = weight}, at::kCPU));
    layer.weight.set_requires_grad(true);
    layer.bias = at::randn({weight.size(0)}).set_requires_grad(true);
  }
  optim::ParameterList parameters() {
    auto codes = trained_codes(layer);
    EXPECT_EQ(codes.size(), 1u);
    return {{"w", layer.weight, 1, codes.at("weight")}, {"b", layer.bias}};
  }
};

at::Tensor exponent_of(const at::Tensor& scales) { return scales.log2(); }

}  // namespace

TEST(TrainedCodes, GradientsAreThoseOfTheUnpackedWeightAndTheLeafTakesNoMemory) {
  for (auto [out, in] : {std::pair<int64_t, int64_t>{300, 200}, {1300, 1024}}) {
    auto w = some_weight(out, in);
    auto x = at::randn({2, 5, in}).set_requires_grad(true), dy = at::randn({2, 5, out});
    TrainedLayer trained(w, false);
    auto& layer = trained.layer;
    EXPECT_EQ(layer.weight.storage().nbytes(), 4u);
    EXPECT_EQ(layer.source().num_bytes(), out * in + 4 * out);
    auto plain = all_rows(layer.source()).set_requires_grad(true), bias = layer.bias.detach().clone().set_requires_grad(true);
    auto x2 = x.detach().clone().set_requires_grad(true);
    auto y = layer.forward(x), expected = at::linear(x2, plain, bias);
    EXPECT_LE(relative_error(y.detach(), expected.detach()), 1e-6);
    torch::autograd::backward({y, y}, {dy, dy});  // gradients add up
    torch::autograd::backward({expected}, {2 * dy});
    EXPECT_LE(relative_error(layer.weight.grad(), plain.grad()), 1e-6);
    EXPECT_LE(relative_error(layer.bias.grad(), bias.grad()), 1e-6);
    EXPECT_LE(relative_error(x.grad(), x2.grad()), 3e-6);  // summed over tiles
  }
}

TEST(TrainedCodes, ConvolutionsAndFp8ProductsTrainToo) {
  at::manual_seed(3);
  auto kernel = at::randn({8, 4, 3, 3});
  nn::Conv2d conv(4, 8, 3, 1, 1, at::TensorOptions().device(at::kMeta), false);
  Store store({.format = {}, .high_precision = {}, .fp8_compute = true, .trained = {""}, .gradient_dtype = at::kBFloat16});
  conv.set_source(store.store("weight", {.numbers = kernel}, at::kCPU));
  conv.weight.set_requires_grad(true);
  auto x = at::randn({1, 4, 6, 6}), dy = at::randn({1, 8, 6, 6});
  auto plain = all_rows(conv.source()).view({8, 4, 3, 3}).set_requires_grad(true);
  torch::autograd::backward({conv.forward(x)}, {dy});
  torch::autograd::backward({at::conv2d(x, plain, {}, 1, 1)}, {dy});
  EXPECT_EQ(conv.weight.grad().sizes(), plain.sizes());
  EXPECT_EQ(conv.weight.grad().scalar_type(), at::kBFloat16);
  EXPECT_LE(relative_error(conv.weight.grad().to(at::kFloat), plain.grad()), 4e-3);

  TrainedLayer computed(some_weight(64, 48), true);
  auto input = at::randn({7, 48}), gradient = at::randn({7, 64});
  torch::autograd::backward({computed.layer.forward(input)}, {gradient});
  EXPECT_LE(relative_error(computed.layer.weight.grad(), at::mm(gradient.t(), input)), 1e-6);
}

TEST(TrainedCodes, StartRoundedToNearestUnderPowersOfTwo) {
  auto w = some_weight(200, 96);
  w[3].zero_();
  w[4].fill_(448.0 / 1024);
  w[5].fill_(448.1 / 1024);
  auto q = quantize_to_train([&](int64_t begin, int64_t end) { return w.narrow(0, begin, end - begin); }, 200, 96, at::kCPU, "w");
  auto exponents = exponent_of(q.scales);
  EXPECT_TRUE(at::equal(exponents, exponents.round()));
  auto most = w.abs().amax(1, true) / q.scales;
  EXPECT_LE(most.max().item<double>(), 448);
  most[3] = 300;
  EXPECT_GT(most.min().item<double>(), 224);
  EXPECT_EQ(q.scales[4].item<double>(), 1.0 / 1024);
  EXPECT_EQ(q.scales[5].item<double>(), 2.0 / 1024);
  auto back = dequantize_rows(q, 0, 200, at::kFloat);
  EXPECT_TRUE(at::equal(back, (w / q.scales).to(at::kFloat8_e4m3fn).to(at::kFloat) * q.scales));
  EXPECT_TRUE((back[3] == 0).all().item<bool>());
  EXPECT_TRUE(at::equal(back, back.to(at::kBFloat16).to(at::kFloat)));  // a bf16 file loses nothing
}

TEST(TrainedCodes, WritingIsUnbiasedThroughChangesOfScaleAndKeepsWhatDoesNotChange) {
  at::manual_seed(9);
  // Rows that stay within their scale, that outgrow it, that shrink far below it, and a row of zeros that gets its first numbers.
  auto start = at::randn({4, 64}) * 0.1;
  start[3].zero_();
  auto w = quantize_to_train([&](int64_t begin, int64_t end) { return start.narrow(0, begin, end - begin); }, 4, 64, at::kCPU, "w");
  auto first_codes = w.codes.clone(), first_scales = w.scales.clone();
  TrainedCodes codes(w);
  auto held = at::empty({256});
  codes.read(0, held);
  auto factors = at::tensor({1.003f, 3.7f, 0.01f, 1.0f}).unsqueeze(1);
  auto wanted = held.view({4, 64}) * factors;
  wanted[3] = at::randn({64}) * 1e-5;
  auto sum = at::zeros({256}, at::kDouble), squares = at::zeros({256}, at::kDouble), drawn = at::empty({256});
  const int num_draws = 20000;
  for (int draw = 0; draw < num_draws; ++draw) {
    w.codes.copy_(first_codes);
    w.scales.copy_(first_scales);
    codes.write(0, wanted.clone().view({-1}), mix64(static_cast<uint64_t>(draw)));
    codes.read(0, drawn);
    auto error = (drawn - wanted.view({-1})).to(at::kDouble);
    sum += error;
    squares += error.square();
  }
  auto deviation = (squares / num_draws).sqrt() / std::sqrt(num_draws);
  EXPECT_LE((sum.abs() / num_draws - 5 * deviation).max().item<double>(), 1e-12);
  auto change = exponent_of(w.scales) - exponent_of(first_scales);
  EXPECT_EQ(change[0].item<double>(), 0);
  EXPECT_GE(change[1].item<double>(), 1);
  EXPECT_LE(change[2].item<double>(), -5);

  // A value that was not updated is its code again, whatever is drawn.
  w.codes.copy_(first_codes);
  w.scales.copy_(first_scales);
  for (uint64_t key = 0; key < 100; ++key) {
    codes.read(0, held);
    codes.write(0, held, key);
  }
  EXPECT_TRUE(at::equal(w.codes, first_codes));
  EXPECT_TRUE(at::equal(w.scales, first_scales));
}

TEST(TrainedCodes, AveragesAreSwappedInAndOutBitForBit) {
  TrainedLayer trained(some_weight(40, 32), false);
  auto optimizer = optim::make_optimizer({.rounding = optim::Rounding::stochastic}, trained.parameters());
  optim::Ema ema(optimizer->parameters());
  for (int step = 0; step < 5; ++step) {
    trained.layer.weight.mutable_grad() = at::randn({40, 32});
    optimizer->step(1e-2);
    ema.update(0.9);
  }
  auto codes = optim::values(optimizer->parameters())[0].second.clone();
  auto before = all_rows(trained.layer.source());
  std::optional<optim::Averaged> averaged(std::in_place, *optimizer, &ema);
  auto average = ema.state()[0].second;
  EXPECT_FALSE(at::equal(all_rows(trained.layer.source()), before));
  EXPECT_LE(((all_rows(trained.layer.source()) - average).abs() - average.abs() / 15).max().item<double>(), 1e-4);
  averaged.reset();
  EXPECT_TRUE(at::equal(optim::values(optimizer->parameters())[0].second, codes));
  EXPECT_TRUE(at::equal(all_rows(trained.layer.source()), before));
}

TEST(TrainedCodes, AStepHoldsABatchOfWeightsAndNoMore) {
  const int64_t out = 4096, in = 1024;
  TrainedLayer trained(some_weight(out, in), false, at::kBFloat16);
  auto optimizer = optim::make_optimizer({.rounding = optim::Rounding::stochastic}, trained.parameters());
  trained.layer.weight.mutable_grad() = at::randn({out, in}).to(at::kBFloat16);
  optimizer->step(1e-3);
  test::Allocations counter;
  optimizer->step(1e-3);
  EXPECT_LE(counter.peak(), out * in);  // a quarter of the weight in fp32
}
