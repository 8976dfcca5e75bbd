// Frozen layers with LoRAs against plain ATen: values and gradients, alone and several of one x, and what they read and write.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>

#include "kernels/launch.h"
#include "kernels/low_rank/low_rank.h"
#include "kernels/place.h"
#include "nn/linear.h"
#include "tests/device.h"

namespace burnish::frozen_layers_test {
using kernels::FrozenLayer;

namespace {

using Tensors = std::vector<at::Tensor>;

/// A layer by its sizes; of rank 0 without a LoRA.
struct Spec {
  int64_t out, rank;
  bool with_bias = true;
};

struct Drawn {
  at::Tensor weight, bias = {}, a = {}, b = {};
};

std::vector<Drawn> draw(const std::vector<Spec>& specs, int64_t in, at::ScalarType dtype) {
  const auto options = at::device(test::device()).dtype(at::kFloat);
  const auto exact = dtype == at::kDouble ? at::kDouble : at::kFloat;
  std::vector<Drawn> list;
  for (const auto& [out, rank, with_bias] : specs) {
    auto& layer = list.emplace_back(Drawn{.weight = (at::randn({out, in}, options) * 0.1).to(dtype)});
    if (with_bias) layer.bias = at::randn({out}, options).to(dtype);
    if (rank == 0) continue;
    layer.a = (at::randn({rank, in}, options) * 0.1).to(exact);
    layer.b = (at::randn({out, rank}, options) * 0.1).to(exact);
  }
  return list;
}

constexpr double kScale = 0.7;

/// Results, and gradients of a weighted sum of those results that are used, by x and by A and B of each layer.
Tensors run(const std::vector<Drawn>& drawn, const at::Tensor& x_given, const std::set<size_t>& unused, bool plain) {
  auto leaf = [](const at::Tensor& t) { return t.detach().clone().set_requires_grad(true); };
  auto x = leaf(x_given);
  Tensors leaves{x}, results;
  std::vector<FrozenLayer> layers;
  auto weights = drawn;
  for (auto& layer : weights) {
    if (layer.a.defined()) {
      layer.a = leaf(layer.a);
      layer.b = leaf(layer.b);
      leaves.insert(leaves.end(), {layer.a, layer.b});
    }
    if (plain) {
      auto y = at::linear(x, layer.weight, layer.bias.defined() ? std::optional(layer.bias) : std::nullopt);
      results.push_back(layer.a.defined() ? y + kScale * at::matmul(at::matmul(x, layer.a.t()), layer.b.t()) : y);
    } else {
      layers.push_back({std::make_shared<nn::ParameterSource>(layer.weight), layer.bias, layer.a, layer.b, kScale});
    }
  }
  if (!plain) results = kernels::frozen_layers(x, layers, kernels::matrix_product());
  at::Tensor loss;
  for (size_t i = 0; i < results.size(); ++i) {
    if (unused.contains(i)) continue;
    auto weight = at::linspace(-1, 1, results[i].numel(), at::kDouble).sin().view(results[i].sizes()).to(results[i].device());
    auto part = (results[i].to(at::kDouble) * weight).sum();
    loss = loss.defined() ? loss + part : part;
  }
  torch::autograd::backward({loss}, {});
  for (const auto& each : leaves) results.push_back(each.grad());
  return results;
}

void expect_as_plain(const std::vector<Spec>& specs, at::IntArrayRef x_sizes, at::ScalarType dtype, double bound,
                     const std::set<size_t>& unused = {}) {
  at::manual_seed(0);
  auto drawn = draw(specs, x_sizes.back(), dtype), exact = drawn;
  auto x = at::randn(x_sizes, at::device(test::device()).dtype(at::kFloat)).to(dtype);
  for (auto& layer : exact) {
    for (auto* tensor : {&layer.weight, &layer.bias, &layer.a, &layer.b})
      if (tensor->defined()) *tensor = tensor->to(at::kDouble);
  }
  const auto found = run(drawn, x, unused, false), expected = run(exact, x.to(at::kDouble), unused, true);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << "tensor " << i;
    if (!found[i].defined()) continue;
    ASSERT_EQ(found[i].sizes(), expected[i].sizes());
    const auto error = (found[i].to(at::kDouble) - expected[i]).abs().max() / expected[i].abs().max();
    EXPECT_LE(error.item<double>(), bound) << "tensor " << i;
  }
}

constexpr int64_t kTokens = 256, kIn = 640, kOut = 512, kRank = 16;

/// A weight whose products cost nothing, so that what is left is the LoRA's.
class Free : public kernels::Multiplier {
 public:
  explicit Free(bool adds) : adds_(adds) {}
  at::Tensor forward(const kernels::Product&, const at::Tensor& x, const at::Tensor&) const override {
    auto sizes = x.sizes().vec();
    sizes.back() = kOut;
    return at::empty(sizes, x.options().requires_grad(false));
  }
  at::Tensor input_gradient(const kernels::Product&, const at::Tensor& dy, at::IntArrayRef sizes) const override {
    return at::empty(sizes, dy.options());
  }
  bool adds(const kernels::Product&, const at::Tensor&) const override { return adds_; }
  void add_(const kernels::Product&, const at::Tensor&, const at::Tensor&) const override {}
  void add_input_gradient_(const kernels::Product&, const at::Tensor&, const at::Tensor&) const override {}

 private:
  bool adds_;
};

/// How often operators of ATen read or wrote something as large as x, or as a result.
struct Passes {
  int64_t over_x = 0, over_y = 0;
};
thread_local Passes passes;

void count(const std::vector<c10::IValue>& values) {
  auto add = [](const at::Tensor& t) {
    if (!t.defined()) return;
    if (t.numel() == kTokens * kIn) ++passes.over_x;
    if (t.numel() == kTokens * kOut) ++passes.over_y;
  };
  for (const auto& value : values) {
    if (value.isTensor()) add(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) add(t);
    }
  }
}

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& function) {
  static const std::set<std::string_view> readers{"aten::mm",    "aten::addmm", "aten::addmm_", "aten::add_", "aten::add",
                                                  "aten::copy_", "aten::cat",   "aten::mul",    "aten::mul_", "aten::sum"};
  const std::string_view name = function.name();
  if (!readers.contains(name)) return nullptr;
  const std::vector<c10::IValue> inputs(function.inputs().begin(), function.inputs().end());
  count(inputs);
  if (name.ends_with('_')) count({inputs[0]});  // written
  return nullptr;
}

void after(const at::RecordFunction& function, at::ObserverContext*) {
  static const std::set<std::string_view> writers{"aten::mm", "aten::addmm", "aten::add", "aten::cat", "aten::mul"};
  if (writers.contains(function.name())) count(function.outputs());
}

/// Of so many layers of one x, forward and backward.
Passes passes_of(int64_t num_layers, bool adds) {
  const auto meta = at::device(at::kMeta);
  const auto x = at::empty({1, kTokens, kIn}, meta.dtype(at::kBFloat16)).set_requires_grad(true);
  std::vector<FrozenLayer> layers;
  Tensors leaves{x}, gradients;
  for (int64_t i = 0; i < num_layers; ++i) {
    auto a = at::empty({kRank, kIn}, meta.dtype(at::kFloat)).set_requires_grad(true);
    auto b = at::empty({kOut, kRank}, meta.dtype(at::kFloat)).set_requires_grad(true);
    layers.push_back({std::make_shared<Free>(adds), {}, a, b, 1.0});
    leaves.insert(leaves.end(), {a, b});
    gradients.push_back(at::empty({1, kTokens, kOut}, meta.dtype(at::kBFloat16)));
  }
  passes = {};
  const auto results = kernels::frozen_layers(x, layers, kernels::matrix_product());
  torch::autograd::grad(results, leaves, gradients);
  return passes;
}

}  // namespace

TEST(FrozenLayers, AreLayersWithLorasOfOneInput) {
  for (auto [dtype, bound] :
       {std::pair(at::kDouble, 1e-12), std::pair(at::kFloat, test::tolerance(2e-5)), std::pair(at::kBFloat16, 3e-2)}) {
    SCOPED_TRACE(at::toString(dtype));
    for (int64_t tokens : {1, 5, 70}) {  // few rows and many are multiplied by different libraries
      expect_as_plain({{48, 4}}, {2, tokens, 32}, dtype, bound);
      expect_as_plain({{48, 0}}, {2, tokens, 32}, dtype, bound);
      expect_as_plain({{48, 4}, {32, 16, false}, {80, 3}}, {2, tokens, 32}, dtype, bound);
      expect_as_plain({{48, 0}, {32, 16, false}, {80, 0}}, {2, tokens, 32}, dtype, bound);
    }
  }
}

TEST(FrozenLayers, HaveNoGradientWhereTheirResultIsNotUsed) {
  for (const auto& unused : {std::set<size_t>{0}, {1}, {0, 2}})
    expect_as_plain({{48, 4}, {32, 16}, {80, 0}}, {3, 5, 32}, at::kDouble, 1e-12, unused);
}

TEST(FrozenLayers, PassOnceOverWhatIsLarge) {
  const kernels::StandIn gpu(c10::Device(c10::kCUDA, 0));
  // A build with CUDA has a kernel that reads each gradient once, and is no operator of ATen.
  const int64_t over_gradient = kernels::binaries().empty() ? 2 : 0;
  const auto callback = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&before, &after).needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION}));
  for (int64_t count : {1, 3}) {
    const auto [over_x, over_y] = passes_of(count, true);
    EXPECT_EQ(over_x, 3) << "x for h and for dA, and dx written";
    EXPECT_EQ(over_y, count * (1 + over_gradient)) << "each result written";
  }
  const auto [over_x, over_y] = passes_of(1, false);
  EXPECT_EQ(over_x, 4) << "dx read and written";
  EXPECT_EQ(over_y, 2 + over_gradient) << "the result read and written";
  at::removeCallback(callback);
}

}  // namespace burnish::frozen_layers_test
