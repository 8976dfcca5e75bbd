// Parity of Qwen-Image's parts with diffusers' and transformers' on a small random model (tests/golden/make_qwen_image.py).
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/qwen_image/controlnet.h"
#include "models/families/qwen_image/transformer.h"
#include "models/parts/shared_components.h"
#include "models/registry.h"
#include "models/vae/causal_autoencoder.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::qwen_image_test {
using namespace burnish::models;
using qwen_image::Transformer;
using test::load;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kModel = "qwen_image_pipeline/model/";
const std::string kTransformer = kModel + "transformer/";

io::TensorSource weights() { return test::golden(kTransformer + "diffusion_pytorch_model.safetensors"); }
nlohmann::json config_json(const std::string& folder = kTransformer) { return io::read_json(test::golden_path(folder + "config.json")); }

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kTransformer, qwen_image::detect, part);
}

const test::CaptionedBatch& golden_batch() {
  static const test::CaptionedBatch batch("qwen_image_pipeline/batch.safetensors");
  return batch;
}

Transformer::Inputs inputs(const test::CaptionedBatch& batch) {
  return {.noisy_BCHW = batch.noisy_BCHW, .text_BTE = batch.text_BTE, .mask_BT = batch.mask_BT, .modulation_BM = {}};
}
at::Tensor run(Transformer& modulation, Transformer& body, const test::CaptionedBatch& batch) {
  auto in = inputs(batch);
  in.modulation_BM = modulation.modulate(batch.sigma_B, at::kFloat);
  return body.forward(in);
}
at::Tensor run(Transformer& model, const test::CaptionedBatch& batch) { return run(model, model, batch); }

void expect_gradients(Transformer& model) {
  auto out = run(model, golden_batch());
  EXPECT_LE(relative_error(out, golden_batch().file.tensor("out")), tolerance(1e-5));
  test::backward(out, golden_batch().file);
  auto expected = golden_batch().file.below("grad.");
  int num_read = 0;
  for (auto& [path, slot] : model.parameters()) {
    bool is_read = expected.contains(path) && expected.tensor(path)[0].item<double>() > 0;
    num_read += is_read;
    if (!is_read) {
      EXPECT_TRUE(!slot->grad().defined() || slot->grad().abs().max().item<float>() == 0) << path;
      continue;
    }
    ASSERT_TRUE(slot->grad().defined()) << path;
    EXPECT_LE(relative_error(test::digest(slot->grad()), expected.tensor(path)), tolerance(1e-4)) << path;
  }
  EXPECT_GT(num_read, 80);
}

}  // namespace

TEST(QwenImageParity, ForwardAndAllGradients) { expect_gradients(*load_transformer()); }

TEST(QwenImageParity, RecomputedGradientsAreTheSame) {
  auto recomputed = load_transformer();
  test::recompute_blocks(*recomputed);
  expect_gradients(*recomputed);
}

TEST(QwenImageParity, TextEncoder) {
  at::NoGradGuard no_grad;
  auto file = test::golden("qwen_image_pipeline/text.safetensors");
  auto source = text::qwen_tensors(test::golden(kModel + "text_encoder/model.safetensors"));
  auto config = text::qwen_config(config_json(kModel + "text_encoder/"), source.shapes());
  EXPECT_TRUE(config.qkv_bias);
  text::QwenEncoder encoder(config, at::TensorOptions().device(at::kMeta));
  load(encoder, source);
  EXPECT_LE(relative_error(encoder.forward(on_device(file.tensor("ids")), {config.num_layers}).front(), file.tensor("states")),
            tolerance(1e-5));
}

namespace {

void expect_autoencoder(const io::TensorSource& whole) {
  at::NoGradGuard no_grad;
  auto file = test::golden("qwen_image_pipeline/vae.safetensors");
  auto source = vae::causal_tensors(whole);
  auto keys = vae::causal_keys(source);
  vae::CausalAutoencoder autoencoder(vae::causal_config(nullptr, io::shapes_in_our_names(source, keys)),
                                     at::TensorOptions().device(at::kMeta));
  load(autoencoder, source, keys);
  auto moments = autoencoder.encode(on_device(file.tensor("image")));
  EXPECT_LE(relative_error(moments.mean_BCHW, file.tensor("mean")), tolerance(1e-5));
  EXPECT_LE(relative_error(moments.logvar_BCHW, file.tensor("logvar")), tolerance(1e-5));
  EXPECT_LE(relative_error(autoencoder.decode(on_device(file.tensor("latents"))), file.tensor("decoded")), tolerance(1e-5));
}

}  // namespace

TEST(QwenImageParity, Autoencoder) { expect_autoencoder(test::golden(kModel + "vae/diffusion_pytorch_model.safetensors")); }

TEST(QwenImageKeys, AnAutoencoderInOriginalNamesIsTheSame) {
  auto source = vae::causal_tensors(test::golden(kModel + "vae/diffusion_pytorch_model.safetensors"));
  auto config = vae::causal_config(nullptr, io::shapes_in_our_names(source, vae::diffusers_causal_keys()));
  vae::CausalAutoencoder autoencoder(config, at::TensorOptions().device(at::kMeta));
  load(autoencoder, source, vae::diffusers_causal_keys());
  io::NamedTensors ours;
  for (auto& [path, slot] : autoencoder.parameters()) ours.emplace_back(path, *slot);
  test::Scratch scratch;
  auto file = (scratch / "original.safetensors").string();
  io::save_safetensors(file, vae::original_causal_keys(config).to_file(ours));
  auto original = io::TensorSource::open({file});
  for (const char* name :
       {"conv1.weight", "encoder.conv1.weight", "encoder.downsamples.1.resample.1.weight", "encoder.middle.1.to_qkv.bias",
        "decoder.upsamples.3.residual.2.weight", "decoder.upsamples.2.resample.1.weight", "decoder.head.0.gamma"})
    EXPECT_TRUE(original.contains(name)) << name;
  EXPECT_EQ(original.shapes().at("encoder.conv1.weight").size(), 5u);
  expect_autoencoder(original);
}

TEST(QwenImageBatch, EqualsItsSamplesOneByOne) {
  test::expect_samples(golden_batch(), [model = load_transformer()](const auto& batch) { return run(*model, batch); });
}

TEST(QwenImageParts, ModulationAndBodyAreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_transformer(), modulation = load_transformer({.body = false}), body = load_transformer({.modulation = false});
  EXPECT_EQ(modulation->num_bytes() + body->num_bytes(), whole->num_bytes());
  EXPECT_GT(modulation->num_bytes() * 4, whole->num_bytes());
  EXPECT_TRUE(at::equal(run(*modulation, *body, golden_batch()), run(*whole, golden_batch())));
}

TEST(QwenImageConfig, PublishedSizesHaveThePublishedParameterCount) {
  Transformer model(qwen_image::Config{}, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
  EXPECT_EQ(model.num_bytes() / 2, 20430401088);
  auto json = nlohmann::json::parse(R"({"num_layers": 60, "num_attention_heads": 24, "attention_head_dim": 128})");
  auto config = qwen_image::detect(&json, {});
  EXPECT_EQ(config.hidden, 12288);
  EXPECT_EQ(config.axes_dims, qwen_image::Config().axes_dims);
}

TEST(QwenImageConfig, WhatIsAnotherModelsIsAnError) {
  for (const auto& [key, value] : std::map<std::string, nlohmann::json>{
           {"num_layers", 7}, {"guidance_embeds", true}, {"use_additional_t_cond", true}, {"use_layer3d_rope", true}}) {
    auto json = config_json();
    json[key] = value;
    EXPECT_NE(test::error_of([&] { qwen_image::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  }
}

TEST(QwenImageReferences, AreModulatedByTheTimeZeroWhereTheModelSaysSo) {
  at::NoGradGuard no_grad;
  const auto sigma_B = golden_batch().one(0).sigma_B;
  auto in = inputs(golden_batch().one(0));
  in.references = {on_device(at::linspace(-1, 1, 16 * 4 * 8)).view({1, 16, 4, 8})};
  auto plain = load_transformer()->forward([&] {
    in.modulation_BM = load_transformer()->modulate(sigma_B, at::kFloat, /*with_references=*/true);
    return in;
  }());
  auto json = config_json();
  json["zero_cond_t"] = true;
  auto zero = std::make_unique<Transformer>(qwen_image::detect(&json, weights().shapes()), at::TensorOptions().device(at::kMeta));
  for (auto& [path, slot] : zero->parameters()) *slot = weights().tensor(path).to(test::device(), at::kFloat);
  auto run = [&](const at::Tensor& at_B) {
    in.modulation_BM = zero->modulate(at_B, at::kFloat, /*with_references=*/true);
    return zero->forward(in);
  };
  EXPECT_GT(relative_error(run(sigma_B), plain), 1e-3);
  // At the time 0 both are modulated alike.
  auto at_zero = at::zeros_like(sigma_B);
  auto expected = [&] {
    auto model = load_transformer();
    in.modulation_BM = model->modulate(at_zero, at::kFloat);
    return model->forward(in);
  }();
  EXPECT_LE(relative_error(run(at_zero), expected), tolerance(1e-5));
  // Without references nothing is.
  in.references.clear();
  auto without = run(sigma_B);
  in.modulation_BM = zero->modulate(sigma_B, at::kFloat);
  EXPECT_TRUE(at::equal(zero->forward(in), without));
}

TEST(QwenImageReferences, ComfyUisMarkSaysThatTheyAreModulatedByTheTimeZero) {
  io::NamedTensors tensors{{"model.diffusion_model.__index_timestep_zero__", at::zeros({1})}};
  for (const auto& name : weights().names()) tensors.emplace_back("model.diffusion_model." + name, weights().tensor(name));
  test::Scratch scratch;
  auto open = [&](const std::string& name) {
    io::save_safetensors((scratch / name).string(), tensors);
    ModelOptions options;
    options.own = default_options();
    auto model = open_model(open_model_files({{(scratch / name).string()}, "", ""}), options);
    model->components().check("dit");
    return model->names();
  };
  EXPECT_EQ(open("2511.safetensors").marks, std::vector<std::string>{"__index_timestep_zero__"});
  tensors.erase(tensors.begin());
  EXPECT_TRUE(open("plain.safetensors").marks.empty());
}

TEST(QwenImage, ABlockwiseControlNetAddsWhatDiffSynthStudiosDoes) {
  auto file = test::golden("qwen_blockwise/control.safetensors");
  qwen_image::BlockwiseControlNet net(qwen_image::BlockwiseControlNet::detect(file.shapes()), at::TensorOptions().device(at::kMeta));
  load(net, file);
  auto expected = test::golden("qwen_blockwise/expected.safetensors");
  auto out = net.forward(1, on_device(expected.tensor("block.image")), net.embed(on_device(expected.tensor("block.control"))));
  EXPECT_LE(relative_error(out, expected.tensor("block.out")), tolerance(1e-6));
}

}  // namespace burnish::qwen_image_test
