// The operators of a FLUX block at the shapes of the small model of peers.py: 1 sample, 64 + 256 tokens, width 512 in 4 heads of 128,
// MLP 2048, rank 16. "train" runs forward and backward, with the gradients that a LoRA run needs unless the name says otherwise.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/gelu_tanh/gelu_tanh.h"
#include "kernels/linear/linear.h"
#include "kernels/low_rank/low_rank.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"

namespace burnish {
namespace {

constexpr int64_t kTokens = 320, kWidth = 512, kHeads = 4, kHeadDim = 128, kMlp = 2048, kRank = 16;
constexpr double kEps = 1e-6;

/// Tensors of one case: `inputs` get gradients when training, `frozen` never do.
struct Operands {
  std::vector<at::Tensor> inputs, frozen;
};

struct Case {
  std::string name;
  std::function<Operands(const at::TensorOptions&)> make;
  std::function<at::Tensor(const Operands&)> forward;
};

at::Tensor random(at::IntArrayRef shape, const at::TensorOptions& options) { return at::randn(shape, at::kFloat).mul_(0.1).to(options); }

Case linear_case(const std::string& name, int64_t num_in, int64_t num_out, bool weight_is_trained) {
  return {name,
          [=](const at::TensorOptions& o) {
            Operands made{{random({1, kTokens, num_in}, o)}, {}};
            auto weight = random({num_out, num_in}, o), bias = random({num_out}, o);
            auto& list = weight_is_trained ? made.inputs : made.frozen;
            list.insert(list.end(), {weight, bias});
            return made;
          },
          [=](const Operands& x) {
            const auto& list = weight_is_trained ? x.inputs : x.frozen;
            const size_t first = weight_is_trained ? 1 : 0;
            return kernels::linear(x.inputs[0], list[first], list[first + 1]);
          }};
}

std::vector<Case> cases() {
  const auto fp32 = at::TensorOptions().dtype(at::kFloat);
  std::vector<Case> list{
      linear_case("linear/512x512", kWidth, kWidth, false),
      linear_case("linear/512x2048", kWidth, kMlp, false),
      linear_case("linear/2560x512", kWidth + kMlp, kWidth, false),
      linear_case("linear_trained/512x2048", kWidth, kMlp, true),
  };
  list.push_back({"add_low_rank/512x2048",
                  [=](const at::TensorOptions& o) {
                    return Operands{{random({1, kTokens, kMlp}, o), random({1, kTokens, kWidth}, o), random({kRank, kWidth}, fp32),
                                     random({kMlp, kRank}, fp32)},
                                    {}};
                  },
                  [](const Operands& x) { return kernels::add_low_rank(x.inputs[0], x.inputs[1], x.inputs[2], x.inputs[3], 1.0); }});
  list.push_back({"modulated_norm",
                  [](const at::TensorOptions& o) {
                    return Operands{{random({1, kTokens, kWidth}, o), random({1, kWidth}, o), random({1, kWidth}, o)}, {}};
                  },
                  [](const Operands& x) { return kernels::modulated_norm(x.inputs[0], x.inputs[1], x.inputs[2], kEps); }});
  list.push_back({"modulated_norm_reference",
                  [](const at::TensorOptions& o) {
                    return Operands{{random({1, kTokens, kWidth}, o), random({1, kWidth}, o), random({1, kWidth}, o)}, {}};
                  },
                  [](const Operands& x) { return kernels::modulated_norm_reference(x.inputs[0], x.inputs[1], x.inputs[2], kEps); }});
  list.push_back({"gelu_tanh",
                  [](const at::TensorOptions& o) {
                    return Operands{{random({1, kTokens, kMlp}, o)}, {}};
                  },
                  [](const Operands& x) { return kernels::gelu_tanh(x.inputs[0]); }});
  list.push_back({"gelu_of_aten",
                  [](const at::TensorOptions& o) {
                    return Operands{{random({1, kTokens, kMlp}, o)}, {}};
                  },
                  [](const Operands& x) { return at::gelu(x.inputs[0], "tanh"); }});
  list.push_back({"qk_norm_rope",
                  [=](const at::TensorOptions& o) {
                    return Operands{
                        {random({1, kTokens, kHeads, kHeadDim}, o)},
                        {at::ones({kHeadDim}, o), random({kTokens, kHeadDim / 2}, fp32), random({kTokens, kHeadDim / 2}, fp32)}};
                  },
                  [](const Operands& x) { return kernels::qk_norm_rope(x.inputs[0], x.frozen[0], x.frozen[1], x.frozen[2], kEps); }});
  list.push_back({"gated_residual",
                  [](const at::TensorOptions& o) {
                    return Operands{{random({1, kTokens, kWidth}, o), random({1, kWidth}, o), random({1, kTokens, kWidth}, o)}, {}};
                  },
                  [](const Operands& x) { return kernels::gated_residual(x.inputs[0], x.inputs[1], x.inputs[2]); }});
  list.push_back({"attention",
                  [](const at::TensorOptions& o) {
                    auto heads = [&] { return random({1, kHeads, kTokens, kHeadDim}, o); };
                    return Operands{{heads(), heads(), heads()}, {}};
                  },
                  [](const Operands& x) { return nn::attention(x.inputs[0], x.inputs[1], x.inputs[2]); }});
  return list;
}

void time_forward(benchmark::State& state, const Case& c, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  const auto operands = c.make(at::TensorOptions().dtype(dtype));
  for (auto _ : state) {
    auto y = c.forward(operands);
    benchmark::DoNotOptimize(y.data_ptr());
  }
}

void time_training(benchmark::State& state, const Case& c, at::ScalarType dtype) {
  auto operands = c.make(at::TensorOptions().dtype(dtype));
  for (auto& input : operands.inputs) input.set_requires_grad(true);
  const auto gradient = at::randn_like(c.forward(operands).detach());
  for (auto _ : state) {
    auto gradients = torch::autograd::grad({c.forward(operands)}, operands.inputs, {gradient});
    benchmark::DoNotOptimize(gradients[0].data_ptr());
  }
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const auto& c : cases()) {
    for (auto dtype : {at::kFloat, at::kBFloat16}) {
      const std::string suffix = dtype == at::kFloat ? "/fp32" : "/bf16";
      benchmark::RegisterBenchmark((c.name + suffix + "/forward").c_str(), time_forward, c, dtype)->Unit(benchmark::kMicrosecond);
      benchmark::RegisterBenchmark((c.name + suffix + "/train").c_str(), time_training, c, dtype)->Unit(benchmark::kMicrosecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace burnish
