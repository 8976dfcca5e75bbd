// Parity of Boogu-Image's transformer with its authors' class, as DiffSynth-Studio has it, on a small random model
// (tests/golden/make_boogu.py).
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/families/boogu/transformer.h"
#include "tests/models/load.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::boogu_test {
using namespace burnish::models;
using boogu::Transformer;
using test::relative_error;
using test::tolerance;
using testing::HasSubstr;

namespace {

const std::string kFolder = "boogu_pipeline/model/transformer/";

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kFolder, boogu::detect, part);
}

/// A batch with two reference pictures a sample.
struct BooguBatch : test::CaptionedBatch {
  BooguBatch() : CaptionedBatch("boogu_pipeline/batch.safetensors") {}
  BooguBatch(const CaptionedBatch& batch) : CaptionedBatch(batch) {}
  Transformer::Inputs inputs(const at::Tensor& modulation, const at::Tensor& text) const {
    return {.noisy_BCHW = noisy_BCHW, .references = references_BCHW, .text_BTD = text, .mask_BT = mask_BT, .modulation_BM = modulation};
  }
  at::Tensor run(Transformer& modulation, Transformer& text, Transformer& body) const {
    return body.forward(inputs(modulation.modulate(modulation.condition(sigma_B, at::kFloat)), text.refine_text(text_BTE, mask_BT)));
  }
  at::Tensor run(Transformer& model) const { return run(model, model, model); }
};

io::Shapes shapes() { return test::golden(kFolder + "diffusion_pytorch_model.safetensors").shapes(); }
nlohmann::json config_json() { return io::read_json(test::golden_path(kFolder + "config.json")); }

}  // namespace

TEST(Boogu, ABatchWithReferencesAndItsGradientsAreThoseOfTheAuthorsClass) {
  auto model = load_transformer();
  BooguBatch batch;
  test::expect_parity(*model, batch.file, batch.run(*model), 1e-5);
}

TEST(Boogu, WithoutReferencesItIsTheAuthorsClassToo) {
  at::NoGradGuard no_grad;
  auto model = load_transformer();
  BooguBatch batch;
  batch.references_BCHW.clear();
  EXPECT_LE(relative_error(batch.run(*model), batch.file.tensor("in.without_references")), tolerance(1e-5));
}

TEST(Boogu, RecomputedBlocksGiveTheSameGradients) {
  BooguBatch batch;
  test::expect_recomputed_equal(load_transformer(), load_transformer(), batch.file, [&](Transformer& model) { return batch.run(model); });
}

TEST(Boogu, ABatchIsItsSamplesAndPaddingIsNotRead) {
  auto model = load_transformer();
  auto alone = BooguBatch();
  test::expect_samples(alone, [&](const test::CaptionedBatch& batch) { return BooguBatch(batch).run(*model); });
  alone.references_BCHW.clear();
  test::expect_samples(alone, [&](const test::CaptionedBatch& batch) { return BooguBatch(batch).run(*model); });
}

TEST(Boogu, ThreePartsAreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_transformer();
  auto modulation = load_transformer(mmdit::layers_of_part("dit.modulation")), text = load_transformer(mmdit::layers_of_part("dit.text")),
       body = load_transformer(mmdit::layers_of_part("dit.body"));
  EXPECT_EQ(modulation->num_bytes() + text->num_bytes() + body->num_bytes(), whole->num_bytes());
  EXPECT_TRUE(at::equal(BooguBatch().run(*modulation, *text, *body), BooguBatch().run(*whole)));
}

TEST(Boogu, APartOfTheBlocksAndWhatFollowsAreTheWhole) {
  at::NoGradGuard no_grad;
  BooguBatch batch;
  const auto expected = batch.run(*load_transformer());
  for (int64_t first : {1, 2, 3, 4}) {
    auto begin = load_transformer({.begin = 0, .end = first}), end = load_transformer({.begin = first, .text = false});
    const auto conditioning = begin->condition(batch.sigma_B, at::kFloat);
    const auto hidden = begin->forward(batch.inputs(begin->modulate(conditioning), begin->refine_text(batch.text_BTE, batch.mask_BT)));
    auto rest = batch.inputs(end->modulate(conditioning), {});
    rest.hidden_BLD = hidden;
    EXPECT_TRUE(at::equal(end->forward(rest), expected)) << first;
  }
}

TEST(Boogu, MoreReferencesThanAreToldApartAreRefused) {
  at::NoGradGuard no_grad;
  auto model = load_transformer();
  BooguBatch batch;
  batch.references_BCHW.resize(6, batch.references_BCHW[0]);
  EXPECT_THAT(test::error_of([&] { batch.run(*model); }), HasSubstr("6 reference pictures, and the transformer tells 5 apart"));
}

TEST(Boogu, ConfigIsReadFromTensorsAndFromConfigJson) {
  const auto json = config_json();
  for (const auto& config : {boogu::detect(nullptr, shapes()), boogu::detect(&json, {})}) {
    EXPECT_EQ(config.latent_channels, 16);
    EXPECT_EQ(config.width, 48);
    EXPECT_EQ(config.num_heads, 4);
    EXPECT_EQ(config.num_kv_heads, 2);
    EXPECT_EQ(config.hidden, 48);
    EXPECT_EQ(config.num_double, 2);
    EXPECT_EQ(config.num_single, 2);
    EXPECT_EQ(config.num_refiners, 1);
    EXPECT_EQ(config.caption_width, 16);
    EXPECT_EQ(config.condition_width(), 48);
    EXPECT_EQ(config.axes_dims(), (std::vector<int64_t>{4, 4, 4}));
  }
}

TEST(Boogu, PublishedSizesHaveThePublishedParameterCount) {
  Transformer model(boogu::Config{}, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
  int64_t count = 0;
  for (auto& [path, slot] : model.parameters()) count += slot->numel();
  EXPECT_EQ(count, 10292556288);
  EXPECT_EQ(model.parameters().size(), 942u);
  const auto json = nlohmann::json::parse(
      R"({"hidden_size": 3360, "num_layers": 40, "num_double_stream_layers": 8, "num_refiner_layers": 2, "num_attention_heads": 28,
          "num_kv_heads": 7, "multiple_of": 256, "ffn_dim_multiplier": null, "axes_dim_rope": [40, 40, 40]})");
  const auto read = boogu::detect(&json, {});
  EXPECT_EQ(read.hidden, boogu::Config().hidden);
  EXPECT_EQ(read.num_single, boogu::Config().num_single);
}

TEST(Boogu, WhatIsComputedOtherwiseIsRefused) {
  for (const auto& [key, value] : std::map<std::string, nlohmann::json>{{"num_layers", 7},
                                                                        {"hidden_size", 60},
                                                                        {"num_attention_heads", 2},
                                                                        {"num_kv_heads", 1},
                                                                        {"num_refiner_layers", 2},
                                                                        {"ffn_dim_multiplier", 0.5},
                                                                        {"in_channels", 4},
                                                                        {"patch_size", 1},
                                                                        {"out_channels", 32},
                                                                        {"timestep_scale", 1.0},
                                                                        {"axes_dim_rope", {4, 4, 6}},
                                                                        {"norm_eps", 0}}) {
    auto json = config_json();
    json[key] = value;
    EXPECT_THAT(test::error_of([&] { boogu::detect(&json, shapes()); }), HasSubstr(key)) << key;
  }
  for (const auto& [group, key, value] : {std::tuple("instruction_feature_configs", "num_instruction_feature_layers", nlohmann::json(2)),
                                          std::tuple("instruction_feature_configs", "instruction_feat_dim", nlohmann::json(8)),
                                          std::tuple("prompt_tuning_configs", "use_prompt_tuning", nlohmann::json(true))}) {
    auto json = config_json();
    json[group][key] = value;
    EXPECT_THAT(test::error_of([&] { boogu::detect(&json, shapes()); }), HasSubstr(key)) << key;
  }
  auto heads = nlohmann::json::parse(R"({"num_attention_heads": 28, "num_kv_heads": 5})");
  EXPECT_THAT(test::error_of([&] { boogu::detect(&heads, {}); }), HasSubstr("which do not divide"));
}

}  // namespace burnish::boogu_test
