// A model with its adapters switched off is the model without them, bit for bit, whatever the adapter and however weights are held.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "adapters/attach.h"
#include "adapters/off.h"
#include "memory/recompute.h"
#include "nn/block.h"
#include "quant/store.h"

using namespace burnish;

namespace {

struct Mlp : nn::Block {
  explicit Mlp(const at::TensorOptions& options) : up(64, 96, options), down(96, 64, options) {
    own("up", up);
    own("down", down);
    visit_parameters([](const std::string&, at::Tensor& p) { p.normal_(0, 0.15); });
  }
  nn::Tensors body(const nn::Tensors& in) override { return {down.forward(at::tanh(up.forward(in[0])))}; }
  nn::Linear up, down;
};

}  // namespace

TEST(AdaptersOff, LeaveTheWeightsAlone) {
  for (const char* storage : {"parameter", "fp8", "nf4"}) {
    for (const char* type : {"lora", "dora", "lokr"}) {
      at::manual_seed(3);
      Mlp block(at::TensorOptions().dtype(at::kBFloat16));
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
        adapters::Off off;
        EXPECT_TRUE(at::equal(block.run({x})[0], base)) << type << " over " << storage;
      }
      EXPECT_FALSE(at::equal(with, base)) << type << " over " << storage;
      EXPECT_TRUE(at::equal(block.run({x})[0], with)) << "they are on again";
    }
  }
}

TEST(AdaptersOff, MustNotMeetGradients) {
  EXPECT_THROW(adapters::Off(), std::logic_error);
  EXPECT_FALSE(adapters::Off::is_active());
}
