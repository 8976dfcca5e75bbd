// Parity of MOSS-Image's parts with DiffSynth-Studio's and transformers' on a small random model (tests/golden/make_moss_image.py).
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/moss_image/transformer.h"
#include "models/text/qwen3_vl_vision.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::moss_image_test {
using namespace burnish::models;
using moss_image::Transformer;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kPipeline = "moss_image_pipeline/", kTransformer = kPipeline + "model/transformer/";

io::TensorSource weights() { return test::golden(kTransformer + "diffusion_pytorch_model.safetensors").without({"rope."}); }
nlohmann::json config_json() { return io::read_json(test::golden_path(kTransformer + "config.json")); }

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kTransformer, moss_image::detect, part);
}

const test::CaptionedBatch& golden_batch(const std::string& name = "batch") {
  static std::map<std::string, std::unique_ptr<test::CaptionedBatch>> batches;
  auto& batch = batches[name];
  if (!batch) batch = std::make_unique<test::CaptionedBatch>(kPipeline + name + ".safetensors");
  return *batch;
}

Transformer::Inputs inputs(const Transformer& modulation, const Transformer& text, const test::CaptionedBatch& batch) {
  return {.noisy_BCHW = batch.noisy_BCHW,
          .mask_BT = batch.mask_BT,
          .references_BCHW = batch.references_BCHW,
          .text_BTD = text.embed(batch.text_BTE, batch.mask_BT),
          .modulation_BM = modulation.modulate(batch.sigma_B, at::kFloat, !batch.references_BCHW.empty())};
}
at::Tensor run(Transformer& model, const test::CaptionedBatch& batch) { return model.forward(inputs(model, model, batch)); }

}  // namespace

TEST(MossImageParity, ForwardAndAllGradients) {
  for (const char* name : {"batch", "edit"}) {
    SCOPED_TRACE(name);
    auto model = load_transformer();
    test::expect_parity(*model, golden_batch(name).file, run(*model, golden_batch(name)), 1e-5);
  }
}

TEST(MossImageParity, RecomputedGradientsAreTheSame) {
  for (const char* name : {"batch", "edit"}) {
    SCOPED_TRACE(name);
    test::expect_recomputed_equal(load_transformer(), load_transformer(), golden_batch(name).file,
                                  [&](auto& model) { return run(model, golden_batch(name)); });
  }
}

TEST(MossImageBatch, EqualsItsSamplesOneByOne) {
  for (const char* name : {"batch", "edit"}) {
    SCOPED_TRACE(name);
    test::expect_samples(golden_batch(name), [model = load_transformer()](const auto& batch) { return run(*model, batch); });
  }
}

TEST(MossImageParts, AreTheWhole) {
  at::NoGradGuard no_grad;
  const mmdit::HeldLayers of_text{.modulation = false, .body = false}, of_modulation{.body = false, .text = false};
  for (const char* name : {"batch", "edit"}) {
    SCOPED_TRACE(name);
    auto whole = load_transformer(), modulation = load_transformer(of_modulation), text = load_transformer(of_text);
    auto body = load_transformer({.modulation = false, .text = false});
    EXPECT_EQ(modulation->num_bytes() + text->num_bytes() + body->num_bytes(), whole->num_bytes());
    for (auto* part : {modulation.get(), text.get()}) EXPECT_GT(part->num_bytes(), 0);
    const auto in = inputs(*modulation, *text, golden_batch(name));
    auto expected = run(*whole, golden_batch(name));
    EXPECT_TRUE(at::equal(body->forward(in), expected));
    auto first = load_transformer({.modulation = false, .end = 2, .text = false});
    auto last = load_transformer({.modulation = false, .begin = 2, .text = false});
    EXPECT_EQ(first->num_bytes() + last->num_bytes(), body->num_bytes());
    auto later = in;
    later.hidden_BLD = first->forward(in);
    later.text_BTD = at::Tensor();
    EXPECT_TRUE(at::equal(last->forward(later), expected));
    // Blocks have their numbers in every part.
    for (auto* inputs : {&later, const_cast<Transformer::Inputs*>(&in)}) inputs->left_out = 2;
    EXPECT_TRUE(at::equal(last->forward(later), body->forward(in)));
    EXPECT_FALSE(at::equal(body->forward(in), expected));
  }
}

TEST(MossImageConfig, PublishedSizesHaveThePublishedParameterCounts) {
  auto options = at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16);
  EXPECT_NEAR(static_cast<double>(Transformer(moss_image::Config{}, options).num_bytes()) / 2e9, 5.082, 5e-4);
  auto json = nlohmann::json::parse(R"({"dim": 3072, "num_heads": 24, "num_layers": 42, "ffn_dim": 8192, "text_dim": 4096})");
  EXPECT_EQ(moss_image::detect(&json, {}).head_dim, 128);
}

TEST(MossImageConfig, OfTensorsAloneIsThatOfBoth) {
  auto json = config_json();
  auto both = moss_image::detect(&json, weights().shapes()), alone = moss_image::detect(nullptr, weights().shapes());
  EXPECT_EQ(alone.num_layers, 3);
  EXPECT_EQ(alone.num_text_layers, 2);
  EXPECT_EQ(alone.num_heads(), both.num_heads());
  EXPECT_EQ(alone.hidden, both.hidden);
  EXPECT_EQ(alone.caption_width, 24);
  EXPECT_EQ(alone.time_channels, 32);
}

TEST(MossImageConfig, WhatIsNoMossImageIsAnError) {
  for (const auto& [key, value] :
       std::map<std::string, nlohmann::json>{{"num_layers", 7}, {"num_heads", 3}, {"ffn_dim", 2}, {"rope_base", 0.0}}) {
    auto json = config_json();
    json[key] = value;
    EXPECT_NE(test::error_of([&] { moss_image::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  }
  auto shapes = weights().shapes();
  shapes["layers.0.q_norm.weight"] = {12};
  EXPECT_NE(test::error_of([&] { moss_image::detect(nullptr, shapes); }).find("heads 12 wide"), std::string::npos);
}

TEST(MossImageVision, APublishedTowerHasNoDeepstack) {
  auto published = text::qwen3_vl_8b_vision();
  published.deepstack.clear();
  text::Qwen3VlVision tower(published, at::TensorOptions().device(at::kMeta));
  io::Shapes shapes;
  for (auto& [path, slot] : tower.parameters()) shapes[path] = slot->sizes().vec();
  EXPECT_EQ(text::qwen3_vl_vision_config(nullptr, shapes).deepstack, std::vector<int64_t>{});
}

}  // namespace burnish::moss_image_test
