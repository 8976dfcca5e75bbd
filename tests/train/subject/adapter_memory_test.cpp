#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "adapters/attach.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "quant/store.h"
#include "tests/allocations.h"

namespace burnish::adapters {
namespace {

constexpr int64_t kWidth = 1024, kHidden = 4096, kTokens = 320, kBlocks = 2;

/// The feed-forward half of transformer blocks, at a size where weights and activations outweigh everything constant.
struct FeedForwards : nn::Module {
  std::vector<std::unique_ptr<nn::Linear>> layers;
  FeedForwards() {
    for (int64_t i = 0; i < 2 * kBlocks; ++i) {
      bool up = i % 2 == 0;
      layers.push_back(std::make_unique<nn::Linear>(up ? kWidth : kHidden, up ? kHidden : kWidth, at::TensorOptions(at::kBFloat16)));
      own("layers." + std::to_string(i), *layers.back());
    }
  }
  at::Tensor forward(at::Tensor x) const {
    for (size_t i = 0; i < layers.size(); i += 2) x = x + layers[i + 1]->forward(at::gelu(layers[i]->forward(x)));
    return x;
  }
};

/// Most bytes that tensors take at once: weights, adapters and two training steps.
int64_t peak_bytes(const std::string& type, const std::string& format) {
  FeedForwards model;
  int64_t weight_bytes = 0;
  for (auto& layer : model.layers) {
    layer->bias = at::zeros({layer->out_features()}, at::kBFloat16);
    auto weight = at::randn({layer->out_features(), layer->in_features()}, at::kBFloat16).mul_(0.02);
    if (format.empty()) layer->weight = weight;
    else
      layer->set_source(
          quant::Store({.format = quant::parse_format(format), .high_precision = {}}).store("weight", {.numbers = weight}, at::kCPU));
    weight_bytes += layer->source().num_bytes();
  }
  test::Allocations allocations;
  AdapterOptions options;
  options.type = type;
  options.rank = 16;
  auto adapted = attach(model, options, {"layers.0", "layers.1", "layers.2", "layers.3"}, 1);
  for (int step = 0; step < 2; ++step) {
    auto x = at::randn({1, kTokens, kWidth}, at::kBFloat16);
    torch::autograd::backward({model.forward(x).square().mean()}, {});
    for (auto& [path, layer, adapter] : adapted) {
      for (auto& [name, parameter] : adapter->parameters()) parameter.data().sub_(parameter.grad());
    }
  }
  return weight_bytes + allocations.peak();
}

TEST(AdapterMemory, DoraTakesAtMostATwentiethMoreThanLora) {
  for (const std::string format : {"", "fp8"}) {
    auto lora = peak_bytes("lora", format), dora = peak_bytes("dora", format);
    EXPECT_GT(lora, 3 * kBlocks * kWidth * kHidden);
    EXPECT_LE(static_cast<double>(dora), 1.05 * static_cast<double>(lora))
        << (format.empty() ? "bf16" : format) << ": " << lora << " " << dora;
    RecordProperty(format.empty() ? "bf16" : format, std::to_string(lora) + " " + std::to_string(dora));
  }
}

}  // namespace
}  // namespace burnish::adapters
