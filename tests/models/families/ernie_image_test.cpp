// Parity of ERNIE-Image's parts with diffusers' and transformers' on a small random model (tests/golden/make_ernie_image.py).
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/ernie_image/transformer.h"
#include "models/text/qwen.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::ernie_image_test {
using namespace burnish::models;
using ernie_image::Transformer;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kModel = "ernie_image_pipeline/model/";
const std::string kTransformer = kModel + "transformer/";

io::TensorSource weights() { return test::golden(kTransformer + "diffusion_pytorch_model.safetensors"); }
nlohmann::json config_json(const std::string& folder = kTransformer) { return io::read_json(test::golden_path(folder + "config.json")); }

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kTransformer, ernie_image::detect, part);
}

const test::CaptionedBatch& golden_batch() {
  static const test::CaptionedBatch batch("ernie_image_pipeline/batch.safetensors");
  return batch;
}

Transformer::Inputs inputs(const Transformer& modulation, const test::CaptionedBatch& batch) {
  return {.noisy_BCHW = batch.noisy_BCHW,
          .mask_BT = batch.mask_BT,
          .text_BTE = batch.text_BTE,
          .modulation_BM = modulation.modulate(batch.sigma_B, at::kFloat)};
}
at::Tensor run(Transformer& model, const test::CaptionedBatch& batch) { return model.forward(inputs(model, batch)); }
text::Yarn yarn_of(const text::QwenConfig& config) { return std::get<text::Yarn>(config.stretch); }

}  // namespace

TEST(ErnieImageParity, ForwardAndAllGradients) {
  auto model = load_transformer();
  test::expect_parity(*model, golden_batch().file, run(*model, golden_batch()), 1e-5);
}

TEST(ErnieImageParity, RecomputedGradientsAreTheSame) {
  test::expect_recomputed_equal(load_transformer(), load_transformer(), golden_batch().file,
                                [](auto& model) { return run(model, golden_batch()); });
}

TEST(ErnieImageParity, TextEncoder) {
  at::NoGradGuard no_grad;
  auto file = test::golden("ernie_image_pipeline/text.safetensors");
  auto source = text::qwen_tensors(test::golden(kModel + "text_encoder/model.safetensors"));
  auto config = text::ministral3_config(config_json(kModel + "text_encoder/"), source.shapes());
  ASSERT_TRUE(std::holds_alternative<text::Yarn>(config.stretch));
  EXPECT_EQ(config.num_heads * config.head_dim, 256);
  EXPECT_EQ(config.width, 24);
  text::QwenEncoder encoder(config, at::TensorOptions().device(at::kMeta));
  test::load(encoder, source);
  auto states = encoder.forward(on_device(file.tensor("ids")), {0, 1, 2, 3});
  for (size_t i = 0; i < states.size(); ++i)
    EXPECT_LE(relative_error(states[i], file.tensor("states." + std::to_string(i))), tolerance(1e-5)) << i;
}

TEST(ErnieImageBatch, EqualsItsSamplesOneByOne) {
  test::expect_samples(golden_batch(), [model = load_transformer()](const auto& batch) { return run(*model, batch); });
}

TEST(ErnieImageParts, AreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_transformer(), modulation = load_transformer({.body = false}), body = load_transformer({.modulation = false});
  EXPECT_EQ(modulation->num_bytes() + body->num_bytes(), whole->num_bytes());
  EXPECT_GT(modulation->num_bytes(), 0);
  const auto in = inputs(*modulation, golden_batch());
  auto expected = run(*whole, golden_batch());
  EXPECT_TRUE(at::equal(body->forward(in), expected));
  auto first = load_transformer({.modulation = false, .end = 2}), last = load_transformer({.modulation = false, .begin = 2});
  EXPECT_EQ(first->num_bytes() + last->num_bytes(), body->num_bytes());
  auto later = in;
  later.hidden_BLD = first->forward(in);
  later.text_BTE = at::Tensor();
  EXPECT_TRUE(at::equal(last->forward(later), expected));
}

TEST(ErnieImageConfig, PublishedSizesHaveThePublishedParameterCounts) {
  auto options = at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16);
  EXPECT_EQ(Transformer(ernie_image::Config{}, options).num_bytes() / 2, 8'033'490'048);
  EXPECT_EQ(text::QwenEncoder(text::ministral3_3b(), options).num_bytes() / 2, 3'429'006'336);
  auto json = nlohmann::json::parse(
      R"({"hidden_size": 4096, "num_attention_heads": 32, "num_layers": 36, "ffn_hidden_size": 12288, "text_in_dim": 3072})");
  auto config = ernie_image::detect(&json, {});
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.axes_dims, ernie_image::Config().axes_dims);
}

TEST(ErnieImageConfig, OfTensorsAloneIsThatOfBoth) {
  auto json = config_json();
  auto both = ernie_image::detect(&json, weights().shapes()), alone = ernie_image::detect(nullptr, weights().shapes());
  EXPECT_EQ(alone.num_layers, 3);
  EXPECT_EQ(alone.num_heads(), both.num_heads());
  EXPECT_EQ(alone.hidden, both.hidden);
  EXPECT_EQ(alone.caption_width, 24);
  EXPECT_EQ(alone.axes_dims, both.axes_dims);
}

TEST(ErnieImageConfig, WhatIsNoErnieImageIsAnError) {
  for (const auto& [key, value] : std::map<std::string, nlohmann::json>{{"num_layers", 7},
                                                                        {"patch_size", 2},
                                                                        {"qk_layernorm", false},
                                                                        {"out_channels", 16},
                                                                        {"rope_axes_dim", {4, 4, 4}},
                                                                        {"eps", 0.0}}) {
    auto json = config_json();
    json[key] = value;
    EXPECT_NE(test::error_of([&] { ernie_image::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  }
}

TEST(MistralConfig, PositionsAreStretchedAsItsFilesSay) {
  auto source = text::qwen_tensors(test::golden(kModel + "text_encoder/model.safetensors"));
  auto whole = config_json(kModel + "text_encoder/");
  auto of = [&](const std::function<void(nlohmann::json & text)>& change) {
    auto json = whole;
    change(json["text_config"]);
    return text::ministral3_config(json, source.shapes());
  };
  EXPECT_EQ(yarn_of(of([](auto& text) { text["rope_parameters"]["original_max_position_embeddings"] = 1024; })).first_length, 1024);
  EXPECT_EQ(of([](auto& text) { text["rope_parameters"]["rope_type"] = "default"; }).stretch.index(), 0U);
  EXPECT_EQ(of([](auto& text) { text["model_type"] = "mistral", text.erase("rope_parameters"); }).stretch.index(), 0U);
  EXPECT_EQ(yarn_of(of([](auto& text) { text.erase("rope_parameters"); })).first_length, 16384);
  EXPECT_NEAR(yarn_of(of([](auto& text) { text["rope_parameters"].erase("mscale"); })).magnitude, 0.1 * std::log(16.0) + 1, 1e-12);
  EXPECT_NE(test::error_of([&] { of([](auto& text) { text["rope_parameters"]["factor"] = 0.5; }); }).find("(yarn) by a factor of 0.5"),
            std::string::npos);
  const auto alone = text::ministral3_config(nullptr, source.shapes());
  EXPECT_EQ(alone.eps, 1e-5);
  EXPECT_EQ(alone.num_heads, 2);
  EXPECT_EQ(yarn_of(alone).factor, 16);
}

}  // namespace burnish::ernie_image_test
