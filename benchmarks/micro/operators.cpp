// The operators of a FLUX block at the shapes of the small model of peers.py: 1 sample, 64 + 256 tokens, width 512 in 4 heads of 128,
// MLP 2048, rank 16; on a GPU (BURNISH_TEST_DEVICE=cuda) at those of FLUX.1: 4608 tokens, width 3072 in 24 heads. "train" runs forward and
// backward, with the gradients that a LoRA run needs unless the name says otherwise.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/geglu/geglu.h"
#include "kernels/gelu_tanh/gelu_tanh.h"
#include "kernels/group_norm_silu/group_norm_silu.h"
#include "kernels/linear/linear.h"
#include "kernels/low_rank/low_rank.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "kernels/product/product.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"

namespace burnish {
namespace {

c10::Device chosen_device() {
  const char* name = std::getenv("BURNISH_TEST_DEVICE");
  return c10::Device(name == nullptr ? "cpu" : name);
}

const c10::Device kDevice = chosen_device();
const bool kOnCpu = kDevice.is_cpu();
const int64_t kTokens = kOnCpu ? 320 : 4608, kWidth = kOnCpu ? 512 : 3072, kHeads = kOnCpu ? 4 : 24, kHeadDim = 128, kMlp = 4 * kWidth,
              kRank = 16, kChannels = kOnCpu ? 64 : 320, kSide = kOnCpu ? 32 : 128;
constexpr int64_t kGroups = 32;
constexpr double kEps = 1e-6;
/// Calls between two waits for the device, so that what is timed is not how long a wait takes.
const int64_t kCalls = kOnCpu ? 1 : 20;

void wait_for_device() {
  if (!kOnCpu) c10::impl::VirtualGuardImpl(kDevice.type()).synchronizeDevice(0);
}

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

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

struct Weight : kernels::Multiplier {
  explicit Weight(at::Tensor weight) : weight(std::move(weight)) {}
  at::Tensor forward(const kernels::Product& product, const at::Tensor& x, const at::Tensor& bias) const override {
    return product.multiply(x, weight, bias);
  }
  at::Tensor input_gradient(const kernels::Product& product, const at::Tensor& dy, at::IntArrayRef sizes) const override {
    return product.multiply_back(dy, weight, sizes);
  }
  at::Tensor weight;
};

/// A layer with a LoRA: as one operator, and as layer and two products.
void add_lora_cases(std::vector<Case>& list) {
  auto make = [](const at::TensorOptions& o) {
    const auto fp32 = o.dtype(at::kFloat);
    return Operands{{random({1, kTokens, kWidth}, o), random({kRank, kWidth}, fp32), random({kWidth, kRank}, fp32)},
                    {random({kWidth, kWidth}, o), random({kWidth}, o)}};
  };
  list.push_back({"frozen_layer", make, [](const Operands& x) {
                    const kernels::FrozenLayer layer{std::make_shared<Weight>(x.frozen[0]), x.frozen[1], x.inputs[1], x.inputs[2]};
                    return kernels::frozen_layers(x.inputs[0], {layer}, kernels::matrix_product())[0];
                  }});
  list.push_back({"frozen_layer_of_aten", make, [](const Operands& x) {
                    const auto dtype = x.inputs[0].scalar_type();
                    const auto h = at::linear(x.inputs[0], x.inputs[1].to(dtype));
                    return at::linear(x.inputs[0], x.frozen[0], x.frozen[1]) + at::linear(h, x.inputs[2].to(dtype)) * 1.0;
                  }});
}

/// By the kernel that is fastest, and by the one that ATen takes by itself.
void add_attention_cases(std::vector<Case>& list) {
  auto make = [](const at::TensorOptions& o) {
    auto heads = [&] { return random({1, kHeads, kTokens, kHeadDim}, o); };
    return Operands{{heads(), heads(), heads()}, {}};
  };
  list.push_back({"attention", make, [](const Operands& x) { return nn::attention(x.inputs[0], x.inputs[1], x.inputs[2]); }});
  list.push_back({"attention_of_aten", make, [](const Operands& x) {
                    using enum at::SDPBackend;
                    std::vector<int64_t> order;
                    for (auto backend : {flash_attention, efficient_attention, math, cudnn_attention, overrideable})
                      order.push_back(static_cast<int64_t>(backend));
                    at::globalContext().setSDPPriorityOrder(order);
                    return at::scaled_dot_product_attention(x.inputs[0], x.inputs[1], x.inputs[2]);
                  }});
}

std::vector<Case> cases() {
  const auto fp32 = at::TensorOptions().device(kDevice).dtype(at::kFloat);
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
  list.push_back({"modulated_norm_of_aten",
                  [](const at::TensorOptions& o) {
                    return Operands{{random({1, kTokens, kWidth}, o), random({1, kWidth}, o), random({1, kWidth}, o)}, {}};
                  },
                  [](const Operands& x) { return kernels::modulated_norm_reference(x.inputs[0], x.inputs[1], x.inputs[2], kEps); }});
  list.push_back({"gelu_tanh",
                  [](const at::TensorOptions& o) {
                    return Operands{{random({1, kTokens, kMlp}, o)}, {}};
                  },
                  [](const Operands& x) { return kernels::gelu_tanh(x.inputs[0]); }});
  list.push_back({"gelu_tanh_of_aten",
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
  list.push_back(
      {"qk_norm_rope_of_aten",
       [=](const at::TensorOptions& o) {
         return Operands{{random({1, kTokens, kHeads, kHeadDim}, o)},
                         {at::ones({kHeadDim}, o), random({kTokens, kHeadDim / 2}, fp32), random({kTokens, kHeadDim / 2}, fp32)}};
       },
       [](const Operands& x) { return kernels::qk_norm_rope_reference(x.inputs[0], x.frozen[0], x.frozen[1], x.frozen[2], kEps); }});
  list.push_back({"gated_residual_of_aten",
                  [](const at::TensorOptions& o) {
                    return Operands{{random({1, kTokens, kWidth}, o), random({1, kWidth}, o), random({1, kTokens, kWidth}, o)}, {}};
                  },
                  [](const Operands& x) { return at::addcmul(x.inputs[0], x.inputs[1].unsqueeze(1), x.inputs[2]); }});
  list.push_back({"geglu",
                  [](const at::TensorOptions& o) {
                    return Operands{{random({1, kTokens, 2 * kMlp}, o)}, {}};
                  },
                  [](const Operands& x) { return kernels::geglu(x.inputs[0]); }});
  list.push_back({"geglu_of_aten",
                  [](const at::TensorOptions& o) {
                    return Operands{{random({1, kTokens, 2 * kMlp}, o)}, {}};
                  },
                  [](const Operands& x) {
                    auto halves = x.inputs[0].chunk(2, -1);
                    return halves[0] * at::gelu(halves[1]);
                  }});
  auto picture = [](const at::TensorOptions& o) {
    return Operands{{random({4, kChannels, kSide, kSide}, o)}, {at::ones({kChannels}, o), at::zeros({kChannels}, o)}};
  };
  list.push_back({"group_norm_silu", picture,
                  [](const Operands& x) { return kernels::group_norm_silu(x.inputs[0], kGroups, x.frozen[0], x.frozen[1], kEps); }});
  list.push_back({"group_norm_silu_of_aten", picture,
                  [](const Operands& x) { return at::silu(at::group_norm(x.inputs[0], kGroups, x.frozen[0], x.frozen[1], kEps)); }});
  add_lora_cases(list);
  add_attention_cases(list);
  return list;
}

/// Times `call`, which has to read and write `bytes` at least.
void time_calls(benchmark::State& state, int64_t bytes, const std::function<void()>& call) {
  call();
  wait_for_device();
  while (state.KeepRunningBatch(kCalls)) {
    for (int64_t i = 0; i < kCalls; ++i) call();
    wait_for_device();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

void time_forward(benchmark::State& state, const Case& c, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  const auto operands = c.make(at::TensorOptions().device(kDevice).dtype(dtype));
  const int64_t bytes = bytes_of(operands.inputs) + bytes_of(operands.frozen) + bytes_of({c.forward(operands)});
  time_calls(state, bytes, [&] { benchmark::DoNotOptimize(c.forward(operands).data_ptr()); });
}

void time_training(benchmark::State& state, const Case& c, at::ScalarType dtype) {
  auto operands = c.make(at::TensorOptions().device(kDevice).dtype(dtype));
  for (auto& input : operands.inputs) input.set_requires_grad(true);
  const auto gradient = at::randn_like(c.forward(operands).detach());
  const int64_t bytes = 3 * bytes_of(operands.inputs) + 2 * bytes_of(operands.frozen) + 2 * bytes_of({gradient});
  time_calls(state, bytes, [&] {
    auto gradients = torch::autograd::grad({c.forward(operands)}, operands.inputs, {gradient});
    benchmark::DoNotOptimize(gradients[0].data_ptr());
  });
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const auto& c : cases()) {
    for (auto dtype : {at::kFloat, at::kBFloat16}) {
      const std::string suffix = dtype == at::kFloat ? "/fp32" : "/bf16";
      benchmark::RegisterBenchmark((c.name + suffix + "/forward").c_str(), time_forward, c, dtype)
          ->Unit(benchmark::kMicrosecond)
          ->UseRealTime();
      benchmark::RegisterBenchmark((c.name + suffix + "/train").c_str(), time_training, c, dtype)
          ->Unit(benchmark::kMicrosecond)
          ->UseRealTime();
    }
  }
  return true;
}();

}  // namespace
}  // namespace burnish
