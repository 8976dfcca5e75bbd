// A model with its adapters at strength 0 is the model without them, bit for bit, whatever the adapter and however weights are held; at any
// other strength what they change is that many times as large, in forward and in backward.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <stdexcept>

#include "adapters/attach.h"
#include "memory/recompute.h"
#include "nn/block.h"
#include "nn/by_tokens.h"
#include "nn/delta_strength.h"
#include "quant/store.h"

using namespace burnish;

namespace {

struct AdaptedMlp : nn::Block {
  explicit AdaptedMlp(const at::TensorOptions& options) : up(64, 96, options), down(96, 64, options) {
    own("up", up);
    own("down", down);
    visit_parameters([](const std::string&, at::Tensor& p) { p.normal_(0, 0.15); });
  }
  nn::Tensors body(const nn::Tensors& in) override { return {down.forward(at::tanh(up.forward(in[0])))}; }
  nn::Linear up, down;
};

}  // namespace

TEST(AdapterStrength, At0LeavesTheWeightsAlone) {
  for (const char* storage : {"parameter", "fp8", "nf4"}) {
    for (const char* type : {"lora", "dora", "lokr"}) {
      at::manual_seed(3);
      AdaptedMlp block(at::TensorOptions().dtype(at::kBFloat16));
      if (storage != std::string("parameter")) {
        quant::Store store({.format = quant::parse_format(storage), .high_precision = {}, .fp8_compute = false});
        block.up.set_source(store.store("up.weight", {.numbers = block.up.weight}, at::kCPU));
        block.down.set_source(store.store("down.weight", {.numbers = block.down.weight}, at::kCPU));
      }
      auto x = at::randn({2, 9, 64}).to(at::kBFloat16);
      at::NoGradGuard no_grad;
      auto base = block.run({x})[0];
      auto dropout = std::make_shared<adapters::Dropout>(adapters::Dropout{.probability = 0.5, .seed = 1, .active = true});
      auto adapted = adapters::attach(block, {.type = type, .rank = 4, .dropout = 0.5}, {"up", "down"}, 5, dropout);
      for (auto& item : adapted) {
        for (auto& [name, p] : item.adapter->parameters()) p.add_(at::randn_like(p));
      }
      block.runner = memory::recompute();
      auto with = block.run({x})[0];
      {
        nn::DeltaStrength off(0);
        EXPECT_TRUE(at::equal(block.run({x})[0], base)) << type << " over " << storage;
      }
      EXPECT_FALSE(at::equal(with, base)) << type << " over " << storage;
      EXPECT_TRUE(at::equal(block.run({x})[0], with)) << "they are on again";
    }
  }
}

TEST(AdapterStrength, IsAFactorOfWhatTheyChange) {
  for (const char* type : {"lora", "loha", "lokr", "oft", "full"}) {
    at::manual_seed(4);
    AdaptedMlp block(at::TensorOptions().dtype(at::kFloat));
    auto adapted = adapters::attach(block, {.type = type, .rank = 4}, {"up"}, 5);
    at::NoGradGuard no_grad;
    for (auto& [name, p] : adapted[0].adapter->parameters()) p.add_(at::randn_like(p), 0.1);
    auto x = at::randn({2, 9, 64});
    auto changed = adapted[0].adapter->update().rows(block.up.source(), 0, 96);
    for (double strength : {-1.0, 0.5, 2.0}) {
      nn::DeltaStrength at(strength);
      auto expected = at::linear(x, block.up.weight + strength * changed, block.up.bias);
      if (type == std::string("oft")) expected = at::linear(x, block.up.weight + strength * changed) + block.up.bias;
      EXPECT_LT((block.up.forward(x) - expected).norm().item<double>() / expected.norm().item<double>(), 1e-6) << type << " " << strength;
    }
    EXPECT_EQ(nn::DeltaStrength::current(), 1);
  }
}

TEST(AdapterStrength, OfADoraIsRefused) {
  AdaptedMlp block(at::TensorOptions().dtype(at::kFloat));
  auto adapted = adapters::attach(block, {.type = "dora", .rank = 4}, {"up"}, 5);
  nn::DeltaStrength at(-1);
  EXPECT_THROW(block.up.forward(at::randn({2, 64})), std::logic_error);
}

TEST(AdapterStrength, IsThatOfForwardWhereBackwardComputesAgain) {
  enum class Way { plain, blocks, tokens };
  auto gradients = [](Way way) {
    at::manual_seed(6);
    AdaptedMlp block(at::TensorOptions().dtype(at::kFloat));
    auto adapted = adapters::attach(block, {.type = "lora", .rank = 4}, {"up", "down"}, 5);
    {
      at::NoGradGuard no_grad;
      for (auto& item : adapted) {
        for (auto& [name, p] : item.adapter->parameters()) p.add_(at::randn_like(p), 0.1);
      }
    }
    if (way == Way::blocks) block.runner = memory::recompute();
    auto x = at::randn({2, 9, 64});
    at::Tensor loss;
    for (double strength : {1.0, -1.0}) {
      nn::DeltaStrength at(strength);
      auto run = [&](const nn::Tensors& in) { return block.run(in)[0]; };
      auto y = way == Way::tokens ? nn::by_tokens({{x, 1}}, 1, 4, run, /*has_parameters=*/true) : run({x});
      loss = loss.defined() ? loss + (y * y).sum() : (y * y * 3).sum();
    }
    torch::autograd::backward({loss}, {});
    std::vector<at::Tensor> all;
    for (auto& item : adapted) {
      for (auto& [name, p] : item.adapter->parameters()) all.push_back(p.grad());
    }
    return all;
  };
  const auto plain = gradients(Way::plain);
  for (auto way : {Way::blocks, Way::tokens}) {
    const auto again = gradients(way);
    for (size_t i = 0; i < plain.size(); ++i)
      EXPECT_LT((again.at(i) - plain[i]).norm().item<double>() / plain[i].norm().item<double>(), 1e-5) << i;
  }
}
