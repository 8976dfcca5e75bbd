// Parity of Qwen-Image-Layered's parts with diffusers' on a small random model (tests/golden/make_qwen_layered.py).
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/qwen_image/layers.h"
#include "models/families/qwen_image/transformer.h"
#include "models/registry.h"
#include "models/vae/causal_autoencoder.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::qwen_layered_test {
using namespace burnish::models;
using qwen_image::Transformer;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kModel = "qwen_layered_pipeline/model/", kTransformer = kModel + "transformer/";
constexpr const char* kAddedToTime = "time_text_embed.addition_t_embedding.weight";

io::TensorSource weights() { return test::golden(kTransformer + "diffusion_pytorch_model.safetensors"); }
nlohmann::json config_json() { return io::read_json(test::golden_path(kTransformer + "config.json")); }

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kTransformer, qwen_image::detect, part);
}

/// Two samples of three layers, with the picture they make up.
const test::CaptionedBatch& golden_batch() {
  static const test::CaptionedBatch batch = [] {
    test::CaptionedBatch read("qwen_layered_pipeline/batch.safetensors");
    read.references_BCHW = {on_device(read.file.tensor("in.picture")).squeeze(2)};
    return read;
  }();
  return batch;
}

at::Tensor run(Transformer& modulation, Transformer& body, const test::CaptionedBatch& batch) {
  return body.forward({.noisy_BCHW = batch.noisy_BCHW,
                       .references = batch.references_BCHW,
                       .text_BTE = batch.text_BTE,
                       .mask_BT = batch.mask_BT,
                       .modulation_BM = modulation.modulate(batch.sigma_B, at::kFloat)});
}
at::Tensor run(Transformer& model, const test::CaptionedBatch& batch) { return run(model, model, batch); }

void expect_gradients(Transformer& model) {
  auto out = run(model, golden_batch());
  EXPECT_EQ(out.sizes(), golden_batch().noisy_BCHW.sizes());
  EXPECT_LE(relative_error(out, golden_batch().file.tensor("out")), tolerance(1e-5));
  test::backward(out, golden_batch().file);
  auto expected = golden_batch().file.below("grad.");
  int num_read = 0;
  for (auto& [path, slot] : model.parameters()) {
    if (!expected.contains(path) || expected.tensor(path)[0].item<double>() == 0) continue;
    ++num_read;
    ASSERT_TRUE(slot->grad().defined()) << path;
    EXPECT_LE(relative_error(test::digest(slot->grad()), expected.tensor(path)), tolerance(1e-4)) << path;
  }
  EXPECT_TRUE(expected.contains(kAddedToTime));
  EXPECT_GT(num_read, 60);
}

}  // namespace

TEST(QwenLayeredParity, ForwardAndAllGradients) { expect_gradients(*load_transformer()); }

TEST(QwenLayeredParity, RecomputedGradientsAreTheSame) {
  auto recomputed = load_transformer();
  test::recompute_blocks(*recomputed);
  expect_gradients(*recomputed);
}

TEST(QwenLayeredParity, AutoencoderOfPicturesWithTransparency) {
  at::NoGradGuard no_grad;
  auto file = test::golden("qwen_layered_pipeline/vae.safetensors");
  auto source = vae::causal_tensors(test::golden(kModel + "vae/diffusion_pytorch_model.safetensors"), vae::CausalFor::layers);
  auto keys = vae::causal_keys(source, vae::CausalFor::layers);
  auto config = vae::causal_config(nullptr, io::shapes_in_our_names(source, keys));
  EXPECT_EQ(config.pixels.channels, 4);
  vae::CausalAutoencoder autoencoder(config, at::TensorOptions().device(at::kMeta));
  test::load(autoencoder, source, keys);
  auto moments = autoencoder.encode(on_device(file.tensor("image")));
  EXPECT_LE(relative_error(moments.mean_BCHW, file.tensor("mean")), tolerance(1e-5));
  EXPECT_LE(relative_error(moments.logvar_BCHW, file.tensor("logvar")), tolerance(1e-5));
  EXPECT_LE(relative_error(autoencoder.decode(on_device(file.tensor("latents"))), file.tensor("decoded")), tolerance(1e-5));
}

TEST(QwenLayeredBatch, EqualsItsSamplesOneByOne) {
  test::expect_samples(golden_batch(), [model = load_transformer()](const auto& batch) { return run(*model, batch); });
}

TEST(QwenLayeredParts, ModulationAndBodyAreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_transformer(), modulation = load_transformer({.body = false}), body = load_transformer({.modulation = false});
  EXPECT_EQ(modulation->num_bytes() + body->num_bytes(), whole->num_bytes());
  EXPECT_TRUE(at::equal(run(*modulation, *body, golden_batch()), run(*whole, golden_batch())));
}

TEST(QwenLayeredConfig, ComesOfTheTensorsOrOfTheConfig) {
  EXPECT_TRUE(qwen_image::detect(nullptr, weights().shapes()).has_layers);
  auto json = config_json();
  EXPECT_TRUE(qwen_image::detect(&json, weights().shapes()).has_layers);
  EXPECT_TRUE(qwen_image::detect(&json, {}).has_layers);
  json.erase("use_layer3d_rope");
  json.erase("use_additional_t_cond");
  EXPECT_FALSE(qwen_image::detect(&json, {}).has_layers);
  EXPECT_TRUE(qwen_image::detect(&json, weights().shapes()).has_layers);
}

TEST(QwenLayeredConfig, HalfOfItIsAnError) {
  for (const char* key : {"use_layer3d_rope", "use_additional_t_cond", "zero_cond_t"}) {
    auto json = config_json();
    json[key] = !json[key].get<bool>();
    EXPECT_NE(test::error_of([&] { qwen_image::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  }
}

TEST(QwenLayeredConfig, PublishedSizesAreQwenImagesAndTwoRows) {
  Transformer model(qwen_image::Config{.has_layers = true}, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
  EXPECT_EQ(model.num_bytes() / 2, 20430401088 + 2 * 3072);
}

/// mu of the pipeline, √(tokens / 256), of a picture of 640 × 640 with four layers.
TEST(QwenLayeredShift, IsOfTheTokensOfOneLayer) {
  auto space = picture_space(16, 8, 2);
  qwen_image::add_layers(space, /*without_whole=*/false);
  const Extent extent{5, 640, 640};
  EXPECT_EQ(space.shape(extent), (std::vector<int64_t>{16, 5, 80, 80}));
  EXPECT_EQ(space.num_tokens(extent), 1600);
  EXPECT_EQ(qwen_image::layered_mu(space.num_tokens(extent), 50), 2.5);
  qwen_image::add_layers(space, /*without_whole=*/true);
  EXPECT_EQ(space.shape(extent), (std::vector<int64_t>{16, 4, 80, 80}));
  EXPECT_EQ(space.num_tokens(extent), 1600);
}

TEST(QwenLayered, AnAutoencoderOfOtherPixelsIsRefused) {
  auto open = [](const std::string& transformer, const std::string& vae) {
    auto path = [](const std::string& folder) { return test::golden_path(folder + "diffusion_pytorch_model.safetensors"); };
    ModelOptions options;
    options.own = default_options();
    return open_model(open_model_files({{path(transformer), path(vae)}, "", ""}), options);
  };
  const std::string plain = "qwen_image_pipeline/model/";
  EXPECT_NE(test::error_of([&] { open(kTransformer, plain + "vae/"); }).find("pictures of 3 channels, and 4 were expected"),
            std::string::npos);
  EXPECT_NE(test::error_of([&] { open(plain + "transformer/", kModel + "vae/"); }).find("pictures of 4 channels, and 3 were expected"),
            std::string::npos);
  auto model = open(kTransformer, kModel + "vae/");
  EXPECT_EQ(model->names().variant, "Qwen-Image-Layered");
  EXPECT_TRUE(model->latent_space().has_layers);
}

}  // namespace burnish::qwen_layered_test
