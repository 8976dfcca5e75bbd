// Gated linear attention by chunks beside the rule token by token, and Qwen3.5's text part beside transformers' Qwen3_5TextModel
// (tests/golden/make_qwen.py).
#include "models/text/gated_delta.h"

#include <ATen/Functions.h>

#include <nlohmann/json.hpp>

#include "models/text/qwen.h"
#include "tests/golden.h"
#include "tests/models/compared.h"
#include "tests/models/transformer_parity.h"

namespace burnish::gated_delta_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

struct Golden {
  io::TensorSource file = test::golden("qwen_3_5.safetensors");
  nlohmann::json json = nlohmann::json::parse(file.metadata().at("config"));
  io::TensorSource weights = text::qwen_tensors(file.below("w."));
  text::QwenConfig config = text::qwen35_config(json, weights.shapes());

  std::unique_ptr<text::QwenEncoder> encoder(at::ScalarType dtype = at::kFloat) const {
    auto encoder = std::make_unique<text::QwenEncoder>(config, at::TensorOptions().device(at::kMeta));
    test::load(*encoder, weights);
    for (auto& [path, slot] : encoder->parameters()) *slot = slot->to(dtype).set_requires_grad(true);
    return encoder;
  }
};

text::DeltaTokens random_tokens(int64_t length) {
  at::manual_seed(length);
  const int64_t B = 2, G = 2, H = 4, K = 8, V = 6;
  return {.query_BLGK = on_device(at::randn({B, length, G, K})),
          .key_BLGK = on_device(at::randn({B, length, G, K})),
          .value_BLHV = on_device(at::randn({B, length, H, V})),
          .log_decay_BLH = on_device(-at::rand({B, length, H}).pow(4) * 3),
          .beta_BLH = on_device(at::rand({B, length, H}))};
}

/// The rule as it is written, in fp64: the state fades, what it has at the key goes over to the value, and the query reads it.
at::Tensor token_by_token(const text::DeltaTokens& t) {
  auto heads = [&](const at::Tensor& x) {
    auto wide = x.to(at::kDouble);
    return (wide / (wide.square().sum(-1, true) + 1e-6).sqrt()).repeat_interleave(t.value_BLHV.size(2) / x.size(2), 2);
  };
  const auto q = heads(t.query_BLGK) / std::sqrt(static_cast<double>(t.query_BLGK.size(-1))), k = heads(t.key_BLGK);
  const auto v = t.value_BLHV.to(at::kDouble), decay = t.log_decay_BLH.to(at::kDouble).exp(), beta = t.beta_BLH.to(at::kDouble);
  auto state = at::zeros({v.size(0), v.size(2), k.size(-1), v.size(-1)}, v.options());
  std::vector<at::Tensor> out;
  for (int64_t i = 0; i < v.size(1); ++i) {
    auto key = k.select(1, i).unsqueeze(-1);
    state = state * decay.select(1, i).unsqueeze(-1).unsqueeze(-1);
    auto change = (v.select(1, i) - (state * key).sum(-2)) * beta.select(1, i).unsqueeze(-1);
    state = state + key * change.unsqueeze(-2);
    out.push_back((state * q.select(1, i).unsqueeze(-1)).sum(-2));
  }
  return at::stack(out, 1);
}

}  // namespace

TEST(GatedDeltaRule, ChunksAreTheRuleTokenByToken) {
  for (const int64_t length : {1, 63, 64, 65, 200}) {
    const auto tokens = random_tokens(length);
    EXPECT_LE(relative_error(text::gated_delta_rule(tokens), token_by_token(tokens)), tolerance(1e-5)) << length;
  }
}

TEST(GatedDeltaRule, WhatStandsBehindATextChangesNothingOfIt) {
  auto tokens = random_tokens(100);
  const auto whole = text::gated_delta_rule(tokens);
  for (auto* tensor : {&tokens.query_BLGK, &tokens.key_BLGK, &tokens.value_BLHV, &tokens.log_decay_BLH, &tokens.beta_BLH})
    *tensor = tensor->narrow(1, 0, 70);
  EXPECT_LE(relative_error(text::gated_delta_rule(tokens), whole.narrow(1, 0, 70)), tolerance(1e-6));
}

TEST(GatedDeltaRule, HasAShapeWithoutNumbers) {
  auto tokens = random_tokens(70);
  for (auto* tensor : {&tokens.query_BLGK, &tokens.key_BLGK, &tokens.value_BLHV, &tokens.log_decay_BLH, &tokens.beta_BLH})
    *tensor = tensor->to(at::kMeta);
  EXPECT_EQ(text::gated_delta_rule(tokens).sizes(), tokens.value_BLHV.sizes());
}

TEST(Qwen35Parity, EveryStateAndAllGradients) {
  Golden golden;
  auto encoder = golden.encoder();
  auto states = encoder->forward(on_device(golden.file.tensor("in.ids")), {0, 1, 2, 3, 4});
  // The numbers are fp64's. Behind the third layer rounding in fp32 has moved them by 1e-5, in transformers too.
  for (size_t i = 0; i < states.size(); ++i)
    EXPECT_LE(relative_error(states[i], golden.file.tensor("out." + std::to_string(i))), tolerance(i < 3 ? 1e-5 : 3e-5)) << i;
  test::backward(states.back(), golden.file);
  test::expect_digests(*encoder, golden.file.below("grad."));
}

TEST(Qwen35Parity, EveryStateInFp64) {
  Golden golden;
  at::NoGradGuard no_grad;
  const auto states = golden.encoder(at::kDouble)->forward(on_device(golden.file.tensor("in.ids")), {0, 1, 2, 3, 4});
  for (size_t i = 0; i < states.size(); ++i) {
    EXPECT_EQ(states[i].scalar_type(), at::kDouble);
    EXPECT_LE(relative_error(states[i], golden.file.tensor("out." + std::to_string(i))), 1e-6) << i;
  }
}

TEST(Qwen35Parity, RecomputedGradientsAreTheSame) {
  Golden golden;
  test::expect_recomputed_equal(golden.encoder(), golden.encoder(), golden.file,
                                [&](auto& encoder) { return encoder.forward(on_device(golden.file.tensor("in.ids")), {4})[0]; });
}

TEST(Qwen35Config, PublishedSizesHaveThePublishedParameterCount) {
  text::QwenEncoder encoder(text::qwen35_9b(), at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
  EXPECT_EQ(encoder.num_bytes() / 2, 7'936'684'544);
  io::Shapes shapes;
  for (auto& [path, slot] : encoder.parameters()) shapes[path] = slot->sizes().vec();
  const auto alone = text::qwen35_config(nullptr, shapes), published = text::qwen35_9b();
  EXPECT_EQ(alone.sections, published.sections);
  EXPECT_EQ(alone.num_heads, 16);
  EXPECT_EQ(alone.num_kv_heads, 4);
  EXPECT_EQ(alone.gated->full_every, 4);
  EXPECT_EQ(alone.gated->num_rotated, 64);
  EXPECT_EQ(alone.gated->num_key_heads, 16);
  EXPECT_EQ(alone.rope_theta, 1e7);
}

TEST(Qwen35Config, IsComparedWithTheTensors) {
  Golden golden;
  EXPECT_EQ(golden.config.gated->num_rotated, 8);
  EXPECT_EQ(golden.config.sections, (std::vector<int64_t>{1, 1, 1, 1}));
  const auto shapes = golden.weights.shapes();
  auto read = [&](const nlohmann::json& config) { text::qwen35_config(config, shapes); };
  test::expect_compared(
      golden.json,
      {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "head_dim", "num_attention_heads", "num_key_value_heads",
       "linear_num_key_heads", "linear_num_value_heads", "linear_value_head_dim", "linear_conv_kernel_dim"},
      read);
  test::expect_refused(golden.json, "linear_key_head_dim", {0, 5, -8}, read);
  auto json = golden.json;
  json["rope_parameters"]["partial_rotary_factor"] = 3.0;
  EXPECT_NE(test::error_of([&] { read(json); }).find("partial_rotary_factor 3"), std::string::npos);
}

}  // namespace burnish::gated_delta_test
