// Parity of Ideogram 4's parts with diffusers' and transformers' on a small random model (tests/golden/make_ideogram4.py).
#include <nlohmann/json.hpp>

#include "diffusion/flow_sampler.h"
#include "diffusion/timestep_sampling.h"
#include "diffusion/training_grid.h"
#include "io/json.h"
#include "models/families/ideogram4/captions.h"
#include "models/families/ideogram4/keys.h"
#include "models/families/ideogram4/statistics.h"
#include "models/families/ideogram4/transformer.h"
#include "models/text/qwen.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::ideogram4_test {
using namespace burnish::models;
using ideogram4::Transformer;
using mmdit::HeldLayers;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kModel = "ideogram4_pipeline/model/";
const std::string kTransformer = kModel + "transformer/";

io::TensorSource weights() { return test::golden(kTransformer + "diffusion_pytorch_model.safetensors"); }
nlohmann::json config_json() { return io::read_json(test::golden_path(kTransformer + "config.json")); }

std::unique_ptr<Transformer> load_transformer(HeldLayers part = {}) {
  return test::load_trained<Transformer>(kTransformer, ideogram4::detect, part);
}

const test::CaptionedBatch& golden_batch() {
  static const test::CaptionedBatch batch("ideogram4_pipeline/batch.safetensors");
  return batch;
}

at::Tensor run(Transformer& modulation, Transformer& text, Transformer& body, const test::CaptionedBatch& batch) {
  return body.forward({.noisy_BCHW = batch.noisy_BCHW,
                       .text_BTD = text.embed(batch.text_BTE),
                       .mask_BT = batch.mask_BT,
                       .condition_BM = modulation.modulate(batch.sigma_B, at::kFloat)});
}
at::Tensor run(Transformer& model, const test::CaptionedBatch& batch) { return run(model, model, model, batch); }

}  // namespace

TEST(Ideogram4Parity, ForwardAndAllGradients) {
  auto model = load_transformer();
  test::expect_parity(*model, golden_batch().file, run(*model, golden_batch()), 1e-5);
}

TEST(Ideogram4Parity, RecomputedGradientsAreTheSame) {
  test::expect_recomputed_equal(load_transformer(), load_transformer(), golden_batch().file,
                                [](auto& model) { return run(model, golden_batch()); });
}

TEST(Ideogram4Parity, TheTextEncodersLayersLieTogetherNumberByNumber) {
  at::NoGradGuard no_grad;
  auto file = test::golden("ideogram4_pipeline/text.safetensors");
  auto source = text::qwen_tensors(test::golden(kModel + "text_encoder/model.safetensors"));
  auto json = io::read_json(test::golden_path(kModel + "text_encoder/config.json"));
  text::QwenEncoder encoder(text::qwen3_vl_config(json, source.shapes()), at::TensorOptions().device(at::kMeta));
  test::load(encoder, source);
  const text::QwenReading reading{.after = {1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 34, 36}, .norms_last = false};
  const auto states = at::stack(encoder.forward(on_device(file.tensor("ids")), reading), -1).flatten(2);
  EXPECT_LE(relative_error(states, file.tensor("states")), tolerance(1e-5));
}

TEST(Ideogram4Batch, EqualsItsSamplesOneByOne) {
  test::expect_samples(golden_batch(), [model = load_transformer()](const auto& batch) { return run(*model, batch); });
}

TEST(Ideogram4Parts, AreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_transformer();
  auto modulation = load_transformer({.body = false, .text = false}), text = load_transformer({.modulation = false, .body = false}),
       body = load_transformer({.modulation = false, .text = false});
  EXPECT_EQ(modulation->num_bytes() + text->num_bytes() + body->num_bytes(), whole->num_bytes());
  EXPECT_TRUE(at::equal(run(*modulation, *text, *body, golden_batch()), run(*whole, golden_batch())));
}

TEST(Ideogram4Config, PublishedSizesHaveThePublishedParameterCounts) {
  auto options = at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16);
  EXPECT_EQ(Transformer(ideogram4::Config{}, options).num_bytes() / 2, 9'279'288'448);
  EXPECT_EQ(text::QwenEncoder(text::qwen3_vl_8b(), options).num_bytes() / 2, 7'568'405'504);
  auto json = nlohmann::json::parse(
      R"({"attention_head_dim": 256, "num_attention_heads": 18, "num_layers": 34, "intermediate_size": 12288, "llm_features_dim": 53248})");
  auto config = ideogram4::detect(&json, {});
  EXPECT_EQ(config.width, 4608);
  EXPECT_EQ(config.sections, ideogram4::Config().sections);
}

TEST(Ideogram4Config, OfTensorsAloneIsThatOfBoth) {
  auto json = config_json();
  auto both = ideogram4::detect(&json, weights().shapes()), alone = ideogram4::detect(nullptr, weights().shapes());
  EXPECT_EQ(alone.num_layers, 3);
  EXPECT_EQ(alone.num_heads(), both.num_heads());
  EXPECT_EQ(alone.hidden, both.hidden);
  EXPECT_EQ(alone.caption_width, 13 * 8);
  EXPECT_EQ(alone.sections, both.sections);
}

TEST(Ideogram4Config, WhatIsNoIdeogram4IsAnError) {
  for (const auto& [key, value] : std::map<std::string, nlohmann::json>{
           {"num_layers", 7}, {"num_attention_heads", 3}, {"adaln_dim", 4}, {"mrope_section", {1, 1, 3}}, {"rope_theta", 0}}) {
    auto json = config_json();
    json[key] = value;
    EXPECT_NE(test::error_of([&] { ideogram4::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  }
}

TEST(Ideogram4Latents, StatisticsOfFlux2GiveWayToThePublishedOnes) {
  auto base_C = at::linspace(-1, 1, 32), little = at::linspace(0, 0.01, 128);
  auto by_pixel = base_C.repeat({4}) + little, by_channel = base_C.repeat_interleave(4) + little;
  EXPECT_TRUE(ideogram4::goes_by_pixel(by_pixel));
  EXPECT_FALSE(ideogram4::goes_by_pixel(by_channel));
  EXPECT_TRUE(ideogram4::order_of_latents(by_pixel).mean.empty());
  const auto published = ideogram4::order_of_latents(by_channel);
  ASSERT_EQ(published.mean.size(), 128u);
  ASSERT_EQ(published.deviation.size(), 128u);
  EXPECT_TRUE(ideogram4::goes_by_pixel(at::tensor(published.mean)));
  EXPECT_TRUE(ideogram4::goes_by_pixel(at::tensor(published.deviation)));
  EXPECT_TRUE(ideogram4::order_of_latents({}).by_pixel);
}

// diffusers: _logit_normal_sigmas and _resolution_aware_mu of pipeline_ideogram4.py, for 4 steps at 1024 by 1024 and 48 by 64.
TEST(Ideogram4Steps, AreQuantilesOfWhatTrains) {
  const diffusion::FlowSamplerConfig config{.shift = 1, .use_dynamic_shifting = false, .quantiles_of = "ideogram4_shift"};
  const auto large = diffusion::sampling_sigmas(config, 4, 4096);
  const std::vector<double> expected{0.9998766183853149, 0.8461712598800659, 0.6666666865348816, 0.4210200309753418, 0.0};
  ASSERT_EQ(large.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(large[i], expected[i], 1e-7) << i;
  EXPECT_NEAR(diffusion::sampling_sigmas(config, 4, 12)[1], 0.2294272780418396, 1e-7);
  const auto grid = diffusion::grid_of({.quantiles_of = "ideogram4_shift"}, 1000);
  ASSERT_EQ(grid.size(), 1000u);
  EXPECT_NEAR(grid[500], 2.0 / 3, 1e-9);
  EXPECT_NEAR(grid[0], 0.99987660, 1e-7);
}

TEST(Ideogram4Captions, StructuredOnesAreReadOnOneLine) {
  using ideogram4::read_caption;
  const std::string one = R"({"high_level_description": "a cat", "compositional_deconstruction": {"background": "é"}})";
  EXPECT_EQ(read_caption(one).text, one);
  EXPECT_EQ(read_caption(one).concern, "");
  const auto lines =
      read_caption("{\n  \"high_level_description\": \"a cat\",\n  \"compositional_deconstruction\": {\"b\": 1, \"a\": \"é\"}\n}\n");
  EXPECT_EQ(lines.text, R"({"high_level_description":"a cat","compositional_deconstruction":{"b":1,"a":"é"}})");
  EXPECT_EQ(lines.concern, "");
  EXPECT_EQ(read_caption("").concern, "");
  EXPECT_NE(read_caption("a cat").concern.find("plain text"), std::string::npos);
  EXPECT_EQ(read_caption("a cat\non a mat").text, "a cat\non a mat");
  EXPECT_NE(read_caption("{a cat").concern.find("is none from its byte 2 on"), std::string::npos);
  EXPECT_NE(read_caption("{\"high_level_description\": 1}").concern.find("has no compositional_deconstruction"), std::string::npos);
}

}  // namespace burnish::ideogram4_test
