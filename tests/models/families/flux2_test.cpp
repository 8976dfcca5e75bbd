// Parity of FLUX.2 klein's parts with diffusers' and transformers' on a small random model (tests/golden/make_flux2.py).
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/flux2/keys.h"
#include "models/families/flux2/model.h"
#include "models/parts/shared_components.h"
#include "models/vae/patch_autoencoder.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::flux2_test {
using namespace burnish::models;
using flux2::Transformer;
using test::load;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kModel = "flux2_pipeline/model/";
const std::string kTransformer = kModel + "transformer/";

io::TensorSource weights() { return test::golden(kTransformer + "diffusion_pytorch_model.safetensors"); }
nlohmann::json config_json(const std::string& folder = kTransformer) { return io::read_json(test::golden_path(folder + "config.json")); }

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kTransformer, flux2::detect, part);
}

/// The batch of the golden file, with two reference pictures of other sizes.
struct Batch {
  io::TensorSource file = test::golden("flux2_pipeline/batch.safetensors");
  at::Tensor sigma_B = on_device(file.tensor("in.sigma"));
  Transformer::Inputs inputs{.noisy_BCHW = on_device(file.tensor("in.noisy")),
                             .references_BCHW = {on_device(file.tensor("in.reference.0")), on_device(file.tensor("in.reference.1"))},
                             .text_BTE = on_device(file.tensor("in.captions")),
                             .modulation_BM = {}};
  at::Tensor run(Transformer& model) {
    inputs.modulation_BM = model.modulate(sigma_B, at::kFloat);
    return model.forward(inputs);
  }
};

void expect_gradients(Transformer& model) {
  Batch batch;
  auto out = batch.run(model);
  test::expect_parity(model, batch.file, out, 1e-5);
}

}  // namespace

TEST(Flux2Parity, ForwardAndAllGradients) { expect_gradients(*load_transformer()); }

TEST(Flux2Parity, RecomputedGradientsAreTheSame) {
  auto recomputed = load_transformer();
  test::recompute_blocks(*recomputed);
  expect_gradients(*recomputed);
}

TEST(Flux2Parity, TextEncoderOfPaddedText) {
  at::NoGradGuard no_grad;
  auto file = test::golden("flux2_pipeline/text.safetensors");
  auto source = text::qwen_tensors(test::golden(kModel + "text_encoder/model.safetensors"));
  text::QwenEncoder encoder(text::qwen_config(config_json(kModel + "text_encoder/"), source.shapes()),
                            at::TensorOptions().device(at::kMeta));
  load(encoder, source);
  auto ids = on_device(file.tensor("ids"));
  auto num_tokens = file.tensor("num_tokens").item<int64_t>();
  auto states = at::cat(encoder.forward(ids, {9, 18, 27}, {}, num_tokens), -1);
  EXPECT_LE(relative_error(states, file.tensor("states")), tolerance(1e-5));
  auto unpadded = at::cat(encoder.forward(ids.narrow(1, 0, num_tokens), {9, 18, 27}), -1);
  EXPECT_LE(relative_error(states.narrow(1, 0, num_tokens), unpadded), tolerance(1e-5));
}

namespace {

std::unique_ptr<vae::PatchAutoencoder> load_autoencoder(const io::TensorSource& whole, const nlohmann::json& json) {
  auto source = vae::patch_tensors(whole);
  auto keys = vae::kl_keys(source);
  auto config = vae::patch_config(json, io::shapes_in_our_names(source, keys));
  auto autoencoder = std::make_unique<vae::PatchAutoencoder>(config, at::TensorOptions().device(at::kMeta));
  load(*autoencoder, source, keys);
  return autoencoder;
}

void expect_golden(const vae::PatchAutoencoder& autoencoder) {
  at::NoGradGuard no_grad;
  auto file = test::golden("flux2_pipeline/vae.safetensors");
  auto moments = autoencoder.encode(on_device(file.tensor("image")));
  EXPECT_LE(relative_error(moments.mean_BCHW, file.tensor("mean")), tolerance(1e-5));
  EXPECT_LE(relative_error(moments.logvar_BCHW, file.tensor("logvar")), tolerance(1e-5));
  EXPECT_LE(relative_error(autoencoder.decode(on_device(file.tensor("latents"))), file.tensor("decoded")), tolerance(1e-5));
}

const std::string kAutoencoder = kModel + "vae/diffusion_pytorch_model.safetensors";

}  // namespace

TEST(Flux2Parity, Autoencoder) { expect_golden(*load_autoencoder(test::golden(kAutoencoder), config_json(kModel + "vae/"))); }

TEST(Flux2Keys, AnAutoencoderInOriginalNamesIsTheSame) {
  auto json = config_json(kModel + "vae/");
  auto autoencoder = load_autoencoder(test::golden(kAutoencoder), json);
  io::NamedTensors ours;
  for (auto& [path, slot] : autoencoder->parameters()) ours.emplace_back(path, *slot);
  test::Scratch scratch;
  auto file = (scratch / "ae.safetensors").string();
  io::save_safetensors(file, patch_part({}, {.own = {{"vae_tile_size", int64_t{0}}}}).names.single_file.keys.to_file(ours));
  auto original = io::TensorSource::open({file});
  for (const char* name :
       {"encoder.quant_conv.weight", "decoder.post_quant_conv.bias", "decoder.up.3.block.0.conv1.weight", "bn.running_var"})
    EXPECT_TRUE(original.contains(name)) << name;
  expect_golden(*load_autoencoder(original, json));
}

TEST(Flux2Keys, OriginalNamesRoundTrip) {
  auto model = load_transformer();
  io::NamedTensors ours;
  for (auto& [path, slot] : model->parameters()) ours.emplace_back(path, slot->detach());
  test::Scratch scratch;
  auto file = (scratch / "original.safetensors").string();
  io::save_safetensors(file, flux2::original_keys().to_file(ours));
  auto source = io::TensorSource::open({file});
  for (const char* name :
       {"img_in.weight", "time_in.out_layer.weight", "double_stream_modulation_img.lin.weight", "double_blocks.1.txt_attn.qkv.weight",
        "double_blocks.0.img_attn.norm.query_norm.scale", "single_blocks.2.linear1.weight", "single_blocks.0.norm.key_norm.scale",
        "final_layer.adaLN_modulation.1.weight"})
    EXPECT_TRUE(source.contains(name)) << name;
  Transformer back(flux2::detect(nullptr, io::shapes_in_our_names(source, flux2::original_keys())), at::TensorOptions().device(at::kMeta));
  load(back, source, flux2::original_keys());
  auto slots = back.parameters();
  for (auto& [path, tensor] : ours) EXPECT_TRUE(at::equal(*slots.at(path), tensor)) << path;
}

TEST(Flux2Batch, EqualsItsSamplesOneByOne) {
  at::NoGradGuard no_grad;
  auto model = load_transformer();
  Batch batch;
  auto together = batch.run(*model);
  for (int64_t b = 0; b < 2; ++b) {
    Batch one;
    one.sigma_B = one.sigma_B.narrow(0, b, 1);
    for (auto* tensor : {&one.inputs.noisy_BCHW, &one.inputs.references_BCHW[0], &one.inputs.references_BCHW[1], &one.inputs.text_BTE})
      *tensor = tensor->narrow(0, b, 1);
    EXPECT_LE(relative_error(together.narrow(0, b, 1), one.run(*model)), tolerance(1e-5)) << b;
  }
}

TEST(Flux2Parts, ModulationAndBodyAreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_transformer(), modulation = load_transformer({.body = false}), body = load_transformer({.modulation = false});
  EXPECT_EQ(modulation->num_bytes() + body->num_bytes(), whole->num_bytes());
  EXPECT_GT(modulation->num_bytes(), 0);
  Batch batch;
  auto expected = batch.run(*whole);
  batch.inputs.modulation_BM = modulation->modulate(batch.sigma_B, at::kFloat);
  EXPECT_TRUE(at::equal(body->forward(batch.inputs), expected));
}

TEST(Flux2Config, PublishedSizesHaveThePublishedParameterCounts) {
  auto options = at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16);
  EXPECT_EQ(Transformer(flux2::Config{}, options).num_bytes() / 2, 3875544576);
  EXPECT_EQ(Transformer(flux2::klein_9b(), options).num_bytes() / 2, 9078581248);
  auto json =
      nlohmann::json::parse(R"({"num_layers": 8, "num_single_layers": 24, "num_attention_heads": 32, "joint_attention_dim": 12288})");
  auto config = flux2::detect(&json, {});
  EXPECT_EQ(config.hidden, 12288);
  EXPECT_EQ(config.axes_dims, flux2::Config().axes_dims);
}

TEST(Flux2Config, WhatIsNoKleinIsAnError) {
  for (const auto& [key, value, words] : {std::tuple<const char*, nlohmann::json, const char*>{"num_layers", 7, "num_layers"},
                                          {"guidance_embeds", true, "guidance_embeds"},
                                          {"patch_size", 2, "patch_size"},
                                          {"axes_dims_rope", {4, 4, 8}, "axes_dims_rope"}}) {
    auto json = config_json();
    json[key] = value;
    EXPECT_NE(test::error_of([&] { flux2::detect(&json, weights().shapes()); }).find(words), std::string::npos) << key;
  }
}

TEST(Flux2Schedule, ShiftDependsOnTokensAndSteps) {
  // diffusers' compute_empirical_mu.
  EXPECT_NEAR(flux2::empirical_mu(4096, 50), 2.0233511571, 1e-9);
  EXPECT_NEAR(flux2::empirical_mu(4096, 10), 8.73809524e-05 * 4096 + 1.89833333, 1e-9);
  EXPECT_NEAR(flux2::empirical_mu(4096, 200), 0.00016927 * 4096 + 0.45666666, 1e-9);
  EXPECT_EQ(flux2::empirical_mu(4301, 10), flux2::empirical_mu(4301, 200));
}

}  // namespace burnish::flux2_test
