// Every adapter over every way to hold a weight, in every dtype, with and without recompute: gradients against plain fp64.
#include <torch/csrc/autograd/autograd.h>

#include <stdexcept>
#include <tuple>

#include "adapters/attach.h"
#include "memory/recompute.h"
#include "nn/block.h"
#include "quant/store.h"
#include "tests/golden.h"

using namespace burnish;
using adapters::NormAxis;

namespace {

struct Mlp : nn::Block {
  explicit Mlp(const at::TensorOptions& options) : up(64, 96, options), down(96, 64, options) {
    own("up", up);
    own("down", down);
  }
  nn::Tensors body(const nn::Tensors& in) override { return {down.forward(at::tanh(up.forward(in[0])))}; }
  static at::Tensor input() { return test::on_device(at::randn({2, 9, 64})); }
  static at::Tensor plain(size_t, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) { return at::linear(x, w, bias); }
  nn::Linear up, down;
};

/// Over `rank` dimensions; the second only mixes channels.
template <size_t rank>
struct Convolutions : nn::Block {
  explicit Convolutions(const at::TensorOptions& options)
      : up(16, 24, kernels::Window::cube(rank, 3, 2, 1), options), down(24, 16, kernels::Window::cube(rank, 1), options) {
    own("up", up);
    own("down", down);
  }
  nn::Tensors body(const nn::Tensors& in) override { return {down.forward(at::tanh(up.forward(in[0])))}; }
  static at::Tensor input() {
    const std::vector<int64_t> places{7, 6, 3};
    std::vector<int64_t> sizes{2, 16};
    sizes.insert(sizes.end(), places.begin(), places.begin() + rank);
    return test::on_device(at::randn(sizes));
  }
  static at::Tensor plain(size_t i, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) {
    const std::vector<int64_t> zeros(rank, 0), ones(rank, 1), twos(rank, 2), threes(rank, 3);
    if (i == 0) return at::convolution(x, w.unflatten(1, {16, -1}).unflatten(2, threes), bias, twos, ones, ones, false, zeros, 1);
    return at::convolution(x, w.unflatten(1, {24, -1}).unflatten(2, ones), bias, ones, zeros, ones, false, zeros, 1);
  }
  nn::Conv up, down;
};

/// The weight under an adapter as a matrix, written out: everything formed as a whole, in fp64.
at::Tensor whole_weight(const nn::LinearMap& layer, const adapters::Adapter& adapter, const std::map<std::string, at::Tensor>& p) {
  auto w = layer.source().rows(0, layer.out_features()).to(at::kDouble);
  auto factor = [&](const std::string& name) { return p.contains(name) ? p.at(name) : at::mm(p.at(name + "_a"), p.at(name + "_b")); };
  at::Tensor change;
  switch (adapter.update().kind()) {
    case adapters::Kind::lora: change = at::mm(p.at("lora_B.weight"), p.at("lora_A.weight")); break;
    case adapters::Kind::loha: change = factor("hada_w1") * factor("hada_w2"); break;
    case adapters::Kind::lokr: change = at::kron(factor("lokr_w1"), factor("lokr_w2")); break;
    default: throw std::logic_error("no kind of this test");
  }
  auto v = w + change * adapter.update().scale();
  if (!adapter.is_dora()) return v;
  auto m = p.at("lora_magnitude_vector");
  if (adapter.magnitude().axis == NormAxis::output) return v * (m / v.detach().square().sum(1).sqrt()).unsqueeze(1);
  auto kernels_OIK = v.unflatten(1, {layer.in_channels(), -1});
  return (kernels_OIK * (m / kernels_OIK.detach().square().sum(at::IntArrayRef{0, 2}).sqrt()).unsqueeze(1)).flatten(1);
}

double norm_error(const at::Tensor& found, const at::Tensor& expected) {
  return ((found.detach().to(at::kDouble) - expected).norm() / expected.norm().clamp_min(1e-30)).item<double>();
}

double limit_of(at::ScalarType dtype, const std::string& storage) {
  if (storage == "fp8_compute") return 0.15;  // activations and their gradients have three mantissa bits
  if (storage.starts_with("int8") && storage.ends_with("_compute")) return 0.05;  // seven bits below the largest of a row
  return test::tolerance(dtype == at::kFloat ? 2e-5 : dtype == at::kHalf ? 4e-3 : 3e-2, dtype);
}

/// One point of the product: an adapter over a way to hold weights, in a dtype, with or without recompute.
template <class Block>
void compare_with_fp64(const std::string& type, const std::string& storage, at::ScalarType dtype, bool recompute) {
  const bool fp8_products = storage == "fp8_compute", int8_products = storage.starts_with("int8") && storage.ends_with("_compute");
  at::manual_seed(7);
  Block block(at::TensorOptions().dtype(dtype).device(test::device()));
  block.visit_parameters([](const std::string&, at::Tensor& p) { p.copy_(at::empty(p.sizes(), p.scalar_type()).normal_(0, 0.15)); });
  if (storage != "parameter") {
    quant::Store store({.format = quant::parse_format(storage.substr(0, storage.find("_compute"))),
                        .high_precision = {},
                        .fp8_compute = fp8_products,
                        .int8_compute = int8_products});
    block.up.set_source(store.store("up.weight", {.numbers = block.up.weight}, test::device()));
    block.down.set_source(store.store("down.weight", {.numbers = block.down.weight}, test::device()));
  }
  adapters::AdapterOptions options{.type = type.starts_with("dora") ? "dora" : type,
                                   .rank = 4,
                                   .alpha = 3,
                                   .dora_norm = type == "dora_input" ? NormAxis::input : NormAxis::output};
  auto adapted = adapters::attach(block, options, {"up", "down"}, 3);
  ASSERT_EQ(adapted.size(), 2u);
  std::map<std::string, std::map<std::string, at::Tensor>> exact;
  for (const auto& item : adapted) {
    for (auto [name, p] : item.adapter->parameters()) {
      at::NoGradGuard no_grad;
      if (name == "lora_magnitude_vector") p.mul_(at::rand_like(p) * 0.4 + 0.8);
      else p.add_(at::randn_like(p) * 0.1);
      exact[item.path][name] = p.detach().to(at::kDouble).requires_grad_(true);
    }
  }
  if (recompute) block.runner = memory::recompute();
  auto x = Block::input().to(dtype).requires_grad_(true);
  auto y = block.run({x})[0];
  auto dy = at::randn(y.sizes()).to(y.options());
  torch::autograd::backward({y}, {dy});

  auto x64 = x.detach().to(at::kDouble).requires_grad_(true);
  auto layer = [&](size_t i, const at::Tensor& in) {
    const auto& map = *adapted[i].layer;
    return Block::plain(i, in, whole_weight(map, *adapted[i].adapter, exact.at(adapted[i].path)), map.bias.detach().to(at::kDouble));
  };
  torch::autograd::backward({layer(1, at::tanh(layer(0, x64)))}, {dy.to(at::kDouble)});

  auto limit = limit_of(dtype, storage);
  EXPECT_LE(norm_error(x.grad(), x64.grad()), limit);
  for (const auto& item : adapted) {
    for (const auto& [name, p] : item.adapter->parameters()) {
      ASSERT_TRUE(p.grad().defined()) << item.path << "." << name;
      EXPECT_EQ(p.scalar_type(), at::kFloat);
      EXPECT_LE(norm_error(p.grad(), exact.at(item.path).at(name).grad()), limit) << item.path << "." << name;
    }
  }
}

}  // namespace

using Case = std::tuple<std::string, std::string>;
class Product : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Adapters, Product,
                         testing::Combine(testing::Values("lora", "dora", "dora_input", "loha", "lokr"),
                                          testing::Values("parameter", "fp8", "fp8_tensor", "fp8_block", "fp8_plain", "fp8_e5m2", "int8",
                                                          "int8_convrot", "nf4", "fp8_compute", "int8_compute", "int8_convrot_compute")),
                         [](const auto& info) { return std::get<0>(info.param) + "_" + std::get<1>(info.param); });

TEST_P(Product, GradientsAreThoseOfPlainFp64) {
  auto [type, storage] = GetParam();
  for (auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (bool recompute : {false, true}) {
      SCOPED_TRACE(std::string(c10::toString(dtype)) + (recompute ? " recompute" : ""));
      compare_with_fp64<Mlp>(type, storage, dtype, recompute);
      SCOPED_TRACE("convolution");
      compare_with_fp64<Convolutions<1>>(type, storage, dtype, recompute);
      compare_with_fp64<Convolutions<2>>(type, storage, dtype, recompute);
      compare_with_fp64<Convolutions<3>>(type, storage, dtype, recompute);
    }
  }
}
