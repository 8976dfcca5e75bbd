// Convolutions and group norms over one, two and three dimensions against plain ATen.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/layers.h"
#include "nn/linear.h"
#include "tests/golden.h"

namespace burnish::convolution_test {
using kernels::Window;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

constexpr int64_t kIn = 6, kOut = 10;

/// Windows whose dimensions differ in everything, and inputs for them.
struct Case {
  std::string name;
  Window window;
  std::vector<int64_t> x_sizes;
};

const std::vector<Case> kCases{
    {"sound", {.kernel = {5}, .stride = {2}, .padding = {3}, .dilation = {2}}, {2, kIn, 31}},
    {"pictures", {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 0}, .dilation = {2, 1}}, {2, kIn, 9, 8}},
    {"clips", {.kernel = {3, 2, 1}, .stride = {2, 1, 3}, .padding = {0, 1, 0}, .dilation = {1, 3, 1}}, {2, kIn, 7, 6, 8}},
    {"sounds_channels", Window::cube(1, 1), {2, kIn, 31}},
    {"clips_channels", Window::cube(3, 1), {2, kIn, 3, 5, 4}},
};

struct Run {
  at::Tensor y, dx, dw, db;
};

/// The results of `forward` and its gradients by a fixed dy.
Run run(const std::function<at::Tensor(const at::Tensor& x)>& forward, const at::Tensor& x_given, at::Tensor weight, at::Tensor bias) {
  auto x = x_given.detach().clone().requires_grad_(true);
  auto y = forward(x);
  auto dy = at::linspace(-1, 1, y.numel(), at::kDouble).sin().view(y.sizes()).to(y.options());
  torch::autograd::backward({y}, {dy});
  return {y, x.grad(), weight.grad(), bias.grad()};
}

void expect_equal(const Run& found, const Run& expected, double limit) {
  EXPECT_LE(relative_error(found.y, expected.y), limit);
  EXPECT_LE(relative_error(found.dx, expected.dx), limit);
  EXPECT_LE(relative_error(found.dw, expected.dw), limit);
  EXPECT_LE(relative_error(found.db, expected.db), limit);
}

/// A layer with this window and an x of these sizes, in `dtype`; plain: what `convolve` makes of them in fp64.
void compare(const Window& window, const std::vector<int64_t>& x_sizes, at::ScalarType dtype, double limit,
             const std::function<at::Tensor(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias)>& convolve) {
  at::manual_seed(5);
  nn::Conv layer(kIn, kOut, window, at::TensorOptions().dtype(dtype).device(test::device()));
  layer.visit_parameters([](const std::string&, at::Tensor& p) { p.copy_(at::randn(p.sizes())).requires_grad_(true); });
  auto x = on_device(at::randn(x_sizes)).to(dtype);
  auto w = layer.weight.detach().to(at::kDouble).requires_grad_(true), bias = layer.bias.detach().to(at::kDouble).requires_grad_(true);
  auto expected = run([&](const at::Tensor& x64) { return convolve(x64, w, bias); }, x.to(at::kDouble), w, bias);
  expect_equal(run([&](const at::Tensor& in) { return layer.forward(in); }, x, layer.weight, layer.bias), expected, limit);
}

}  // namespace

class AnyRank : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Convolution, AnyRank, testing::ValuesIn(kCases), [](const auto& info) { return info.param.name; });

TEST_P(AnyRank, ValuesAndGradientsAreThoseOfAten) {
  const auto& [name, window, x_sizes] = GetParam();
  const std::vector<int64_t> none(window.kernel.size(), 0);
  for (auto [dtype, limit] : {std::pair{at::kDouble, 1e-12}, {at::kFloat, 1e-5}, {at::kBFloat16, 2e-2}}) {
    SCOPED_TRACE(c10::toString(dtype));
    compare(window, x_sizes, dtype, dtype == at::kDouble ? limit : tolerance(limit, dtype),
            [&](const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) {
              return at::convolution(x, w, bias, window.stride, window.padding, window.dilation, false, none, 1);
            });
  }
}

TEST(CausalConvolution, MeetsZerosBeforeAnInputShorterThanItsKernel) {
  Window window{.kernel = {3, 3, 3}, .stride = {1, 1, 1}, .padding = {0, 1, 1}, .dilation = {1, 1, 1}, .causal = true};
  for (int64_t frames : {1, 2, 3, 5}) {
    SCOPED_TRACE(frames);
    compare(window, {2, kIn, frames, 5, 4}, at::kFloat, tolerance(1e-5),
            [&](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
              auto whole = at::constant_pad_nd(x, {0, 0, 0, 0, std::max<int64_t>(0, 3 - frames), 0});
              return at::convolution(whole, w, b, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, false, {0, 0, 0}, 1);
            });
  }
}

TEST(GroupNorm, OfAnyRankIsThatOfFlatPlaces) {
  at::manual_seed(5);
  nn::GroupNorm norm(2, kIn, 1e-6, at::TensorOptions(test::device()));
  norm.visit_parameters([](const std::string&, at::Tensor& p) { p.normal_(); });
  for (const auto& places : std::vector<std::vector<int64_t>>{{24}, {4, 6}, {2, 3, 4}}) {
    std::vector<int64_t> sizes{2, kIn};
    sizes.insert(sizes.end(), places.begin(), places.end());
    auto x = on_device(at::randn(sizes) * 3 + 1);
    auto expected = at::group_norm(x.flatten(2), 2, norm.weight, norm.bias, 1e-6).view(sizes);
    EXPECT_LE(relative_error(norm.forward(x), expected), 1e-6);
    EXPECT_LE(relative_error(norm.forward_silu(x), at::silu(expected)), tolerance(1e-6));
  }
}

}  // namespace burnish::convolution_test
