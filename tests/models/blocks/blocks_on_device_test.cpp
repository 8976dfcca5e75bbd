// Blocks of transformers and what they are made of: in bf16 on the device of the tests as in fp32 on a CPU, values and gradients.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "models/blocks/mmdit.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"
#include "tests/device.h"

using namespace burnish;
using models::mmdit::DoubleBlock;
using models::mmdit::SingleBlock;
using nn::Tensors;
using Compute = std::function<Tensors(const Tensors&)>;

namespace {

constexpr double kBound = 0.04;  // of the largest number: several roundings to bf16

/// Gradients by those of the inputs that are asked for, of a weighted sum of the results, behind the results.
Tensors with_gradients(const Compute& compute, const Tensors& inputs, const std::vector<bool>& asked, const at::TensorOptions& options) {
  Tensors leaves, wanted;
  for (size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(inputs[i].to(options).clone().set_requires_grad(asked[i]));
    if (asked[i]) wanted.push_back(leaves.back());
  }
  auto results = compute(leaves);
  Tensors outputs, weights;
  for (const auto& result : results) {
    if (!result.requires_grad()) continue;
    outputs.push_back(result);
    weights.push_back((at::arange(result.numel(), at::kFloat).mul(0.7).sin() + 0.3).view(result.sizes()).to(options));
  }
  auto gradients = torch::autograd::grad(outputs, wanted, weights);
  results.insert(results.end(), gradients.begin(), gradients.end());
  return results;
}

/// `exact` on the CPU in fp32, `compute` on the device in bf16.
void expect_same(const Compute& exact, const Compute& compute, const Tensors& inputs, const std::vector<bool>& asked) {
  const auto expected = with_gradients(exact, inputs, asked, at::kFloat);
  const auto found = with_gradients(compute, inputs, asked, at::device(test::device()).dtype(at::kBFloat16));
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto error = (found[i].cpu().to(at::kFloat) - expected[i]).abs().max() / expected[i].abs().max();
    EXPECT_LE(error.item<double>(), kBound) << "tensor " << i << " of " << expected.size();
  }
}
void expect_same(const Compute& compute, const Tensors& inputs, std::vector<bool> asked = {}) {
  asked.resize(inputs.size(), asked.empty());
  expect_same(compute, compute, inputs, asked);
}

at::Tensor drawn(at::IntArrayRef sizes) { return at::randn(sizes, at::kFloat).to(at::kBFloat16).to(at::kFloat); }

/// The same weights in both.
void draw(nn::Module& exact, nn::Module& module) {
  std::map<std::string, at::Tensor> values;
  exact.visit_parameters([&](const std::string& path, at::Tensor& p) {
    p = values[path] = (p.dim() == 1 ? 1 + drawn(p.sizes()) * 0.1 : drawn(p.sizes()) * 0.1).to(at::kBFloat16).to(at::kFloat);
  });
  module.visit_parameters([&](const std::string& path, at::Tensor& p) { p = values.at(path).to(p.options()); });
}

struct Sizes {
  int64_t head_dim, num_text, num_image;
};
void PrintTo(const Sizes& s, std::ostream* out) { *out << s.head_dim << ", " << s.num_text << " + " << s.num_image; }

}  // namespace

class BlocksOnDevice : public testing::TestWithParam<Sizes> {
 protected:
  static constexpr int64_t kHeads = 2, kBatch = 1;
  int64_t dim = GetParam().head_dim, text = GetParam().num_text, image = GetParam().num_image, tokens = text + image, width = kHeads * dim;
  models::mmdit::Widths widths{.num_heads = kHeads, .head_dim = dim, .hidden = 4 * width};
  at::TensorOptions here = at::device(test::device()).dtype(at::kBFloat16);

  at::Tensor heads(int64_t length) const { return drawn({kBatch, length, kHeads, dim}); }
  /// cos and sin in fp32 on the device of a tensor.
  Tensors tables(const at::Tensor& like) const {
    auto angles = at::arange(tokens * dim / 2, at::kFloat).view({tokens, dim / 2}).mul(0.01).to(like.device());
    return {angles.cos(), angles.sin()};
  }
};

TEST_P(BlocksOnDevice, Attention) {
  auto turned = [](const Tensors& in) {
    Tensors out;
    for (const auto& x : in) out.push_back((x * 0.5).transpose(1, 2));  // values to recompute have memory of their own
    return out;
  };
  auto attend = [](const Tensors& qkv) { return Tensors{nn::attention(qkv[0], qkv[1], qkv[2])}; };
  const Tensors qkv{heads(tokens), heads(tokens), heads(tokens)};
  for (const auto& asked : {std::vector<bool>{true, true, true}, {true, false, false}, {false, false, true}}) {
    SCOPED_TRACE(testing::PrintToString(asked));
    expect_same([&](const Tensors& in) { return attend(turned(in)); }, qkv, asked);
    expect_same([&](const Tensors& in) { return nn::recomputed(in, turned, attend); }, qkv, asked);
  }
}

// The same attention twice, whose gradients lie differently in memory: alone, and between other numbers of a token.
TEST_P(BlocksOnDevice, AttentionWhoseGradientsLieApart) {
  auto merged = [](const Tensors& in, size_t first) {
    auto turned = [&](size_t i) { return in[first + i].transpose(1, 2); };
    return nn::merge_heads(nn::attention(turned(0), turned(1), turned(2)));
  };
  auto compute = [&](const Tensors& in) {
    const auto alone = merged(in, 0), other = merged(in, 3);
    return Tensors{alone, at::cat({other, in[6]}, -1)};
  };
  const Tensors qkv{
      heads(tokens), heads(tokens), heads(tokens), heads(tokens), heads(tokens), heads(tokens), drawn({kBatch, tokens, 3 * width})};
  expect_same(compute, qkv);
}

TEST_P(BlocksOnDevice, JointAttention) {
  auto joined = [](const Tensors& in) {
    Tensors out;
    for (size_t i = 0; i < 3; ++i) out.push_back(at::cat({in[i], in[i + 3]}, 1).transpose(1, 2));
    return out;
  };
  auto attend = [](const Tensors& qkv) { return Tensors{nn::attention(qkv[0], qkv[1], qkv[2])}; };
  const Tensors all{heads(text), heads(text), heads(text), heads(image), heads(image), heads(image)};
  for (const auto& asked : {std::vector<bool>{true, true, true, true, true, true}, {false, false, false, true, false, false}}) {
    expect_same([&](const Tensors& in) { return attend(joined(in)); }, all, asked);
    expect_same([&](const Tensors& in) { return nn::recomputed(in, joined, attend); }, all, asked);
  }
}

TEST_P(BlocksOnDevice, HeadsNormedAndTurned) {
  expect_same(
      [&](const Tensors& in) {
        const auto turn = tables(in[0]);
        return Tensors{kernels::qk_norm_rope(in[0], in[1], turn[0], turn[1], 1e-6)};
      },
      {heads(tokens), drawn({dim})});
}

TEST_P(BlocksOnDevice, NormsAndGates) {
  const Tensors inputs{drawn({kBatch, image, width}), drawn({kBatch, width}), drawn({kBatch, width})};
  expect_same([](const Tensors& in) { return Tensors{kernels::modulated_norm(in[0], in[1], in[2], 1e-6)}; }, inputs);
  expect_same([](const Tensors& in) { return Tensors{kernels::gated_residual(in[0], in[1], in[2])}; },
              {inputs[0], inputs[1], drawn({kBatch, image, width})});
}

TEST_P(BlocksOnDevice, FeedForward) {
  for (int64_t length : {text, image}) {
    models::mmdit::FeedForward exact(widths, at::kFloat), module(widths, here);
    draw(exact, module);
    expect_same([&](const Tensors& in) { return Tensors{exact.forward(in[0])}; },
                [&](const Tensors& in) { return Tensors{module.forward(in[0])}; }, {drawn({kBatch, length, width})}, {true});
  }
}

TEST_P(BlocksOnDevice, DoubleAndSingle) {
  constexpr DoubleBlock::Names kNames{"ff", "ff_context"};
  DoubleBlock exact(widths, at::kFloat, kNames), block(widths, here, kNames);
  draw(exact, block);
  auto run = [&](DoubleBlock& of, const Tensors& in) {
    const auto turn = tables(in[0]);
    return of.body({in[0], in[1], in[2], turn[0], turn[1]});
  };
  const Tensors streams{drawn({kBatch, image, width}), drawn({kBatch, text, width}), drawn({kBatch, 12 * width}) * 0.3};
  for (const auto& asked : {std::vector<bool>{true, true, true}, {true, false, false}})
    expect_same([&](const Tensors& in) { return run(exact, in); }, [&](const Tensors& in) { return run(block, in); }, streams, asked);

  SingleBlock exact_single(widths, at::kFloat), single(widths, here);
  draw(exact_single, single);
  auto run_single = [&](SingleBlock& of, const Tensors& in) {
    const auto turn = tables(in[0]);
    return of.body({in[0], in[1], turn[0], turn[1]});
  };
  expect_same([&](const Tensors& in) { return run_single(exact_single, in); }, [&](const Tensors& in) { return run_single(single, in); },
              {drawn({kBatch, tokens, width}), drawn({kBatch, 3 * width}) * 0.3}, {true, true});
}

INSTANTIATE_TEST_SUITE_P(Of, BlocksOnDevice,
                         testing::Values(Sizes{16, 16, 12}, Sizes{16, 16, 48}, Sizes{16, 16, 1024}, Sizes{64, 64, 256},
                                         Sizes{128, 40, 300}));
