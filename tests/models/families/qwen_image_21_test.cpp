// Parity of Qwen-Image-2.1's transformer and autoencoder with diffusers' on small random models (tests/golden/make_qwen_image_21.py).
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "memory/recompute.h"
#include "models/families/qwen_image_21/controlnet.h"
#include "models/families/qwen_image_21/keys.h"
#include "models/families/qwen_image_21/transformer.h"
#include "models/vae/causal_autoencoder.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::qwen_image_21_test {
using namespace burnish::models;
using qwen_image_21::ControlNet;
using qwen_image_21::Transformer;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kPipeline = "qwen_image_21_pipeline/", kFolder = kPipeline + "model/transformer/";

io::TensorSource weights() { return test::golden(kFolder + "diffusion_pytorch_model.safetensors"); }

std::unique_ptr<Transformer> load_qwen(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kFolder, qwen_image_21::detect, part);
}

const test::CaptionedBatch& golden_batch() {
  static const test::CaptionedBatch batch(kPipeline + "batch.safetensors");
  return batch;
}

at::Tensor run(Transformer& modulation, Transformer& body, const test::CaptionedBatch& batch) {
  return body.forward({.noisy_BCHW = batch.noisy_BCHW,
                       .text_BTE = batch.text_BTE,
                       .mask_BT = batch.mask_BT,
                       .modulation_BM = modulation.modulate(batch.sigma_B, at::kFloat)});
}
at::Tensor run(Transformer& model, const test::CaptionedBatch& batch) { return run(model, model, batch); }

}  // namespace

TEST(QwenImage21Parity, ForwardAndAllGradients) {
  auto model = load_qwen();
  test::expect_parity(*model, golden_batch().file, run(*model, golden_batch()), 2e-6);
}

TEST(QwenImage21Parity, RecomputedGradientsAreTheSame) {
  test::expect_recomputed_equal(load_qwen(), load_qwen(), golden_batch().file, [](auto& model) { return run(model, golden_batch()); });
}

TEST(QwenImage21Batch, EqualsItsSamplesOneByOne) {
  test::expect_samples(golden_batch(), [model = load_qwen()](const auto& batch) { return run(*model, batch); });
}

namespace {

/// The same behind two reference pictures, with text before each.
struct QwenEditBatch : test::CaptionedBatch {
  QwenEditBatch() : CaptionedBatch("qwen_image_21_edit/alone.safetensors") {}
  at::Tensor run(Transformer& model, ControlNet* control = nullptr, const at::Tensor& control_BNHW = {}) const {
    return model.forward({.noisy_BCHW = noisy_BCHW,
                          .references = references_BCHW,
                          .between = {on_device(file.tensor("in.between.0")), on_device(file.tensor("in.between.1"))},
                          .text_BTE = text_BTE,
                          .mask_BT = mask_BT,
                          .modulation_BM = model.modulate(sigma_B, at::kFloat),
                          .control = control,
                          .control_BNHW = control_BNHW});
  }
};

}  // namespace

TEST(QwenImage21EditParity, ForwardAndAllGradients) {
  auto model = load_qwen();
  QwenEditBatch batch;
  auto out = batch.run(*model);
  test::expect_parity(*model, batch.file, out, 2e-6);
}

TEST(QwenImage21EditParity, RecomputedGradientsAreTheSame) {
  QwenEditBatch batch;
  test::expect_recomputed_equal(load_qwen(), load_qwen(), batch.file, [&](auto& model) { return batch.run(model); });
}

namespace {

/// A ControlNet beside it, whose parameters train.
std::unique_ptr<ControlNet> load_control(const qwen_image_21::Config& transformer) {
  auto file = test::golden("qwen_image_21_control/control.safetensors");
  auto net = std::make_unique<ControlNet>(ControlNet::detect(file.shapes(), transformer), at::TensorOptions().device(at::kMeta));
  test::load(*net, file);
  for (auto& [path, slot] : net->parameters()) slot->set_requires_grad(true);
  return net;
}

}  // namespace

TEST(QwenImage21ControlParity, ForwardAndAllGradients) {
  QwenEditBatch batch;
  auto alone = test::golden("qwen_image_21_control/alone.safetensors");
  for (bool recomputes : {false, true}) {
    auto model = load_qwen();
    auto net = load_control(model->config());
    if (recomputes)
      for (auto* block : nn::blocks_below(*net)) block->runner = memory::recompute();
    auto out = batch.run(*model, net.get(), on_device(alone.tensor("in.control")));
    EXPECT_LE(relative_error(out, alone.tensor("out")), tolerance(2e-6));
    test::backward(out, alone);
    test::expect_digests(*net, alone.below("grad."));
  }
}

TEST(QwenImage21Control, PublishedSizesHaveThePublishedTensors) {
  ControlNet net({}, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
  EXPECT_NEAR(static_cast<double>(net.num_bytes()), 7.6e9, 0.06e9);
  io::Shapes shapes;
  for (auto& [path, slot] : net.parameters()) shapes[path] = slot->sizes().vec();
  EXPECT_EQ(shapes.at("control_img_in.weight"), (std::vector<int64_t>{4096, 129}));
  EXPECT_TRUE(shapes.contains("control_blocks.0.before_proj.bias"));
  EXPECT_FALSE(shapes.contains("control_blocks.1.before_proj.bias"));
  auto config = ControlNet::detect(shapes, {});
  EXPECT_EQ(config.blocks.num_layers, 16);
  EXPECT_EQ(config.every, 2);
}

TEST(QwenImage21Parts, TwoPartsAreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_qwen();
  auto modulation = load_qwen(mmdit::layers_of_part("dit.modulation")), body = load_qwen(mmdit::layers_of_part("dit.body"));
  EXPECT_EQ(modulation->num_bytes() + body->num_bytes(), whole->num_bytes());
  EXPECT_TRUE(at::equal(run(*modulation, *body, golden_batch()), run(*whole, golden_batch())));
}

TEST(QwenImage21Keys, ComfyUisNamesRoundTrip) {
  auto model = load_qwen();
  io::NamedTensors ours;
  for (auto& [path, slot] : model->parameters()) ours.emplace_back(path, slot->detach());
  test::Scratch scratch;
  auto file = (scratch / "comfyui.safetensors").string();
  io::save_safetensors(file, qwen_image_21::comfyui_keys().to_file(ours));
  auto source = io::TensorSource::open({file});
  EXPECT_EQ(source.names().size(), ours.size() - 3);
  const auto fused = source.tensor("transformer_blocks.1.img_mlp.gate_up.weight");
  EXPECT_TRUE(at::equal(fused.narrow(0, 0, 96), model->parameters().at("transformer_blocks.1.img_mlp.gate_layer.weight")->detach()));
  EXPECT_TRUE(at::equal(fused.narrow(0, 96, 96), model->parameters().at("transformer_blocks.1.img_mlp.proj.weight")->detach()));
  EXPECT_TRUE(source.contains("transformer_blocks.1.img_mlp.out.weight"));
  io::Shapes wanted;
  std::map<std::string, at::Tensor> back;
  for (auto& [path, tensor] : ours) wanted[path] = tensor.sizes().vec();
  io::load_named(
      source, qwen_image_21::comfyui_keys(), wanted, [&](const std::string& path, const io::InFile& read) { back[path] = read.numbers; },
      file);
  for (auto& [path, tensor] : ours) EXPECT_TRUE(at::equal(back.at(path), tensor)) << path;
  auto config = qwen_image_21::detect(nullptr, io::shapes_in_our_names(source, qwen_image_21::comfyui_keys()));
  EXPECT_EQ(config.num_heads, 2);
  EXPECT_EQ(config.hidden, 96);
  EXPECT_EQ(config.axes_dims, (std::vector<int64_t>{4, 6, 6}));
}

TEST(QwenImage21Config, PublishedSizesHaveThePublishedParameterCount) {
  Transformer model(qwen_image_21::Config{}, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
  int64_t count = 0;
  for (auto& [path, slot] : model.parameters()) count += slot->numel();
  EXPECT_EQ(count, 7115124736);
  vae::CausalAutoencoder autoencoder(vae::flat_causal_config(), at::TensorOptions().device(at::kMeta));
  int64_t of_autoencoder = 0;
  for (auto& [path, slot] : autoencoder.parameters()) of_autoencoder += slot->numel();
  EXPECT_EQ(of_autoencoder, 330987188);
  auto json = nlohmann::json::parse(R"({"num_attention_heads": 32, "attention_head_dim": 128, "mlp_ratio": 3})");
  EXPECT_EQ(qwen_image_21::detect(&json, {}).axes_dims, qwen_image_21::Config().axes_dims);
  EXPECT_EQ(qwen_image_21::detect(&json, {}).hidden, 12288);
}

TEST(QwenImage21Config, NumbersThatDisagreeAreErrors) {
  const auto good = io::read_json(test::golden_path(kFolder + "config.json"));
  for (const char* key : {"in_channels", "num_layers", "attention_head_dim", "num_attention_heads", "context_in_dim", "mlp_ratio",
                          "out_channels", "patch_size"}) {
    auto json = good;
    json[key] = 7;
    EXPECT_NE(test::error_of([&] { qwen_image_21::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  }
  for (const auto& [key, value] :
       std::map<std::string, nlohmann::json>{{"axes_dims_rope", {4, 4, 4}}, {"eps", 0}, {"causal_condition", false}}) {
    auto json = good;
    json[key] = value;
    EXPECT_NE(test::error_of([&] { qwen_image_21::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  }
}

namespace {

/// The autoencoder of the golden pipeline.
struct Flat {
  io::TensorSource source = vae::causal_tensors(test::golden(kPipeline + "model/vae/diffusion_pytorch_model.safetensors"));
  vae::CausalConfig config = vae::causal_config(io::read_json(test::golden_path(kPipeline + "model/vae/config.json")),
                                                io::shapes_in_our_names(source, vae::causal_keys(source)));
  vae::CausalAutoencoder model{config, at::TensorOptions()};
  Flat() { test::load(model, source, vae::causal_keys(source)); }
};

}  // namespace

TEST(FlatAutoencoder, PicturesAreEncodedAndDecodedAsByDiffusers) {
  at::NoGradGuard no_grad;
  Flat flat;
  auto file = test::golden(kPipeline + "vae.safetensors");
  auto latents = flat.model.encode(on_device(file.tensor("image"))).mean_BCHW;
  EXPECT_LE(relative_error(latents, file.tensor("latents")), tolerance(1e-5));
  auto drawn = flat.model.decode(on_device(file.tensor("latents")));
  EXPECT_LE(relative_error(drawn, file.tensor("image.drawn").narrow(1, 0, 3)), tolerance(1e-5));
}

TEST(FlatAutoencoder, APictureThatHasAFourthChannelIsEncodedWithIt) {
  at::NoGradGuard no_grad;
  Flat flat;
  auto image = on_device(test::golden(kPipeline + "vae.safetensors").tensor("image"));
  auto with = [&](double alpha) { return flat.model.encode(at::cat({image, at::full_like(image.narrow(1, 0, 1), alpha)}, 1)).mean_BCHW; };
  EXPECT_TRUE(at::equal(flat.model.encode(image).mean_BCHW, with(1)));
  EXPECT_GT(relative_error(with(-1), with(1)), 1e-3);
}

TEST(FlatAutoencoder, OriginalNamesRoundTrip) {
  Flat flat;
  io::NamedTensors ours;
  for (auto& [path, slot] : flat.model.parameters()) ours.emplace_back(path, *slot);
  test::Scratch scratch;
  auto path = (scratch / "original.safetensors").string();
  io::save_safetensors(path, vae::original_causal_keys(flat.config).to_file(ours));
  auto original = io::TensorSource::open({path});
  EXPECT_TRUE(vae::is_flat_causal(original));
  EXPECT_EQ(original.info("encoder.downsamples.0.downsamples.0.residual.2.weight").shape, (std::vector<int64_t>{2, 2, 3, 3}));
  auto keys = vae::causal_keys(original);
  auto config = vae::causal_config(nullptr, io::shapes_in_our_names(original, keys));
  EXPECT_EQ(config.decoder_channels, flat.config.decoder_channels);
  EXPECT_EQ(config.halves_frames, flat.config.halves_frames);
  vae::CausalAutoencoder back(config, at::TensorOptions());
  test::load(back, original, keys);
  auto theirs = back.parameters();
  for (auto& [name, slot] : flat.model.parameters()) EXPECT_TRUE(at::equal(*slot, *theirs.at(name))) << name;
}

TEST(FlatAutoencoder, StepsThatDoNotFitItsLevelsAreAnError) {
  Flat flat;
  auto json = io::read_json(test::golden_path(kPipeline + "model/vae/config.json"));
  auto shapes = io::shapes_in_our_names(flat.source, vae::causal_keys(flat.source));
  json["temperal_downsample"] = {true, false};
  EXPECT_NE(test::error_of([&] { vae::causal_config(json, shapes); }).find("2 numbers temperal_downsample for 5 levels"),
            std::string::npos);
}

}  // namespace burnish::qwen_image_21_test
