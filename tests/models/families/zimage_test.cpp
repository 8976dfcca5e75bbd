// Parity of Z-Image's transformer with diffusers' ZImageTransformer2DModel on a small random model (tests/golden/make_zimage.py).
#include <torch/csrc/autograd/autograd.h>

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/zimage/keys.h"
#include "models/families/zimage/transformer.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::zimage_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;
using zimage::Transformer;

namespace {

const std::string kModel = "zimage_pipeline/model/transformer/";

io::TensorSource weights() { return test::golden(kModel + "diffusion_pytorch_model.safetensors"); }
nlohmann::json config_json() { return io::read_json(test::golden_path(kModel + "config.json")); }

std::unique_ptr<Transformer> load(zimage::HeldLayers part = {}) { return test::load_trained<Transformer>(kModel, zimage::detect, part); }

/// Captions of 5 and of 37 tokens.
const test::CaptionedBatch& golden_batch() {
  static const test::CaptionedBatch batch("zimage_pipeline/batch.safetensors");
  return batch;
}

Transformer::Inputs inputs(const test::CaptionedBatch& batch) {
  return {.noisy_BCHW = batch.noisy_BCHW, .mask_BT = batch.mask_BT, .text_BTE = batch.text_BTE, .sigma_B = batch.sigma_B};
}
at::Tensor run(Transformer& model, const test::CaptionedBatch& batch) { return model.forward(inputs(batch)).velocity_BCHW; }

}  // namespace

TEST(ZImageParity, ForwardAndAllGradients) {
  auto model = load();
  test::expect_parity(*model, golden_batch().file, run(*model, golden_batch()), 1e-5);
}

TEST(ZImageParity, RecomputedGradientsAreTheSame) {
  test::expect_recomputed_equal(load(), load(), golden_batch().file, [](auto& model) { return run(model, golden_batch()); });
}

TEST(ZImageBatch, EqualsItsSamplesOneByOne) {
  test::expect_samples(golden_batch(), [model = load()](const auto& batch) { return run(*model, batch); });
}

TEST(ZImageBatch, OfPicturesThatNeedNoFillingGivesTheirTokenAGradientOfZero) {
  auto model = load();
  auto in = inputs(golden_batch().one(0));
  in.noisy_BCHW = on_device(at::linspace(-1, 1, 16 * 8 * 16)).view({1, 16, 8, 16});  // 4 · 8 tokens
  torch::autograd::backward({model->forward(in).velocity_BCHW.square().sum()}, {});
  auto& grad = model->parameters().at("x_pad_token")->grad();
  ASSERT_TRUE(grad.defined());
  EXPECT_EQ(grad.abs().max().item<float>(), 0);
}

TEST(ZImageKeys, OriginalNamesRoundTrip) {
  auto model = load();
  io::NamedTensors ours;
  for (auto& [path, slot] : model->parameters()) ours.emplace_back(path, slot->detach());
  test::Scratch scratch;
  auto file = (scratch / "original.safetensors").string();
  io::save_safetensors(file, zimage::original_keys().to_file(ours));
  auto source = io::TensorSource::open({file});
  for (const char* name :
       {"layers.2.attention.qkv.weight", "context_refiner.0.attention.q_norm.weight", "noise_refiner.0.attention.out.weight",
        "x_embedder.bias", "final_layer.adaLN_modulation.1.weight", "cap_embedder.1.bias", "t_embedder.mlp.2.weight"})
    EXPECT_TRUE(source.contains(name)) << name;
  io::Shapes wanted;
  std::map<std::string, at::Tensor> back;
  for (auto& [path, tensor] : ours) wanted[path] = tensor.sizes().vec();
  io::load_named(
      source, zimage::original_keys(), wanted, [&](const std::string& path, const io::InFile& read) { back[path] = read.numbers; }, file);
  for (auto& [path, tensor] : ours) EXPECT_TRUE(at::equal(back.at(path), tensor)) << path;
  auto config = zimage::detect(nullptr, io::shapes_in_our_names(source, zimage::original_keys()));
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.axes_dims, (std::vector<int64_t>{4, 6, 6}));
}

TEST(ZImageConfig, PublishedSizesHaveThePublishedParameterCount) {
  Transformer model(zimage::Config{}, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
  EXPECT_EQ(model.num_bytes() / 2, 6154908736);
  auto json = nlohmann::json::parse(R"({"dim": 3840, "n_heads": 30, "n_layers": 30})");
  auto config = zimage::detect(&json, {});
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.axes_dims, zimage::Config().axes_dims);
}

TEST(ZImageConfig, WhatIsNoZImageOfTextAloneIsAnError) {
  for (const auto& [key, value] :
       std::map<std::string, nlohmann::json>{{"n_layers", 7}, {"siglip_feat_dim", 1152}, {"all_patch_size", {4}}}) {
    auto json = config_json();
    json[key] = value;
    EXPECT_NE(test::error_of([&] { zimage::detect(&json, weights().shapes()); }).find(key == "all_patch_size" ? "patches" : key),
              std::string::npos)
        << key;
  }
}

TEST(ZImageParts, LayersInTwoPartsGiveTheSameVelocityWhereverTheyAreSplit) {
  auto whole = load();
  auto expected = run(*whole, golden_batch());
  for (int64_t split = 0; split <= 3; ++split) {
    auto first = load({.end = split}), last = load({.start = false, .begin = split});
    EXPECT_EQ(first->num_bytes() + last->num_bytes(), whole->num_bytes());
    auto out = first->forward(inputs(golden_batch()));
    Transformer::Inputs rest{.noisy_BCHW = golden_batch().noisy_BCHW, .mask_BT = golden_batch().mask_BT};
    rest.hidden_BLD = out.hidden_BLD;
    rest.conditioning_BC = out.conditioning_BC;
    EXPECT_TRUE(at::equal(last->forward(rest).velocity_BCHW, expected)) << "after " << split;
  }
}

}  // namespace burnish::zimage_test
