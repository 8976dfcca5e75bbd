// Parity of what FLUX.2 dev has beside FLUX.2 klein with diffusers and transformers, on a small random model
// (tests/golden/make_flux2_dev.py): a guidance that is embedded, Mistral's text encoder, a decoder of fewer channels.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "io/safetensors.h"
#include "models/families/flux2/keys.h"
#include "models/families/flux2/model.h"
#include "models/parts/shared_components.h"
#include "models/text/qwen.h"
#include "models/vae/patch_autoencoder.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"
#include "tokenizers/tekken.h"

namespace burnish::flux2_dev_test {
using namespace burnish::models;
using flux2::Transformer;
using test::load;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kFolder = "flux2_dev_pipeline/", kModel = kFolder + "model/", kTransformer = kModel + "transformer/";

nlohmann::json config_json(const std::string& folder = kTransformer) { return io::read_json(test::golden_path(folder + "config.json")); }

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kTransformer, flux2::detect, part);
}

struct Batch {
  io::TensorSource file = test::golden(kFolder + "batch.safetensors");
  Transformer::Inputs inputs{.noisy_BCHW = on_device(file.tensor("in.noisy")),
                             .references_BCHW = {on_device(file.tensor("in.reference.0")), on_device(file.tensor("in.reference.1"))},
                             .text_BTE = on_device(file.tensor("in.captions")),
                             .modulation_BM = {}};
  at::Tensor run(Transformer& model, const at::Tensor& guidance_B) {
    inputs.modulation_BM = model.modulate(on_device(file.tensor("in.sigma")), at::kFloat, guidance_B);
    return model.forward(inputs);
  }
  at::Tensor run(Transformer& model) { return run(model, on_device(file.tensor("in.guidance"))); }
};

io::TensorSource text_weights() { return text::qwen_tensors(test::golden(kModel + "text_encoder/model.safetensors")); }

std::unique_ptr<text::QwenEncoder> load_encoder(const io::TensorSource& source, const nlohmann::json& json) {
  auto encoder =
      std::make_unique<text::QwenEncoder>(text::mistral_small_config(json, source.shapes()), at::TensorOptions().device(at::kMeta));
  load(*encoder, source);
  return encoder;
}

}  // namespace

TEST(Flux2DevParity, ForwardAndAllGradients) {
  auto model = load_transformer();
  Batch batch;
  auto out = batch.run(*model);
  EXPECT_LE(relative_error(out, batch.file.tensor("out")), tolerance(1e-5));
  test::backward(out, batch.file);
  test::expect_digests(*model, batch.file.below("grad."));
}

TEST(Flux2DevParity, GuidanceIsRead) {
  at::NoGradGuard no_grad;
  auto model = load_transformer();
  Batch batch;
  auto other = batch.run(*model, on_device(batch.file.tensor("in.guidance")) + 1);
  EXPECT_GT(relative_error(other, batch.file.tensor("out")), 1e-3);
}

TEST(Flux2DevParity, TextsFilledUpOnEitherSide) {
  at::NoGradGuard no_grad;
  auto file = test::golden(kFolder + "text.safetensors");
  auto encoder = load_encoder(text_weights(), config_json(kModel + "text_encoder/"));
  for (const std::string side : {"left", "right"}) {
    const auto ids = file.tensor(side + ".ids");
    const auto is_text = ids[0] != 11;
    const auto num_tokens = is_text.sum().item<int64_t>();
    EXPECT_LT(num_tokens, ids.size(1));
    auto states = at::cat(encoder->forward(on_device(ids), {.after = {10, 20, 30},
                                                            .first_token = side == "left" ? ids.size(1) - num_tokens : 0,
                                                            .num_tokens = num_tokens,
                                                            .norms_last = false}),
                          -1);
    EXPECT_LE(relative_error(states, file.tensor(side + ".states")), tolerance(1e-5)) << side;
  }
}

TEST(Flux2DevParity, ATextsOwnTokensAreTheSameWhereverItIsFilledUp) {
  auto file = test::golden(kFolder + "text.safetensors");
  auto left = file.tensor("left.states"), right = file.tensor("right.states");
  const auto num_tokens = (file.tensor("left.ids")[0] != 11).sum().item<int64_t>(), length = left.size(1);
  EXPECT_LE(relative_error(left.narrow(1, length - num_tokens, num_tokens), right.narrow(1, 0, num_tokens)), 1e-5);
  EXPECT_GT(relative_error(left.narrow(1, 0, 1), right.narrow(1, length - 1, 1)), 1e-2) << "but not what fills up";
}

TEST(Flux2DevText, AFileThatEndsBehindTheLayersThatAreReadIsEnough) {
  at::NoGradGuard no_grad;
  auto file = test::golden(kFolder + "text.safetensors");
  auto whole = text_weights();
  EXPECT_TRUE(whole.contains("layers.30.mlp.up_proj.weight"));
  auto cut = whole.without({"layers.30.", "norm.weight"});
  auto config = text::mistral_small_config(nullptr, cut.shapes());
  EXPECT_EQ(config.num_layers, 30);
  EXPECT_FALSE(config.has_norm);
  auto encoder = load_encoder(cut, nullptr);
  auto ids = file.tensor("right.ids");
  const auto num_tokens = (ids[0] != 11).sum().item<int64_t>();
  auto states = at::cat(encoder->forward(on_device(ids), {.after = {10, 20, 30}, .num_tokens = num_tokens, .norms_last = false}), -1);
  EXPECT_LE(relative_error(states, file.tensor("right.states")), tolerance(1e-5));
}

TEST(Flux2DevText, OfAFileWithoutConfigWhatIsNotInTensorsIsMistralSmalls) {
  auto config = text::mistral_small_config(nullptr, text_weights().shapes());
  EXPECT_EQ(config.rope_theta, 1e9);
  EXPECT_EQ(config.eps, 1e-5);
  EXPECT_EQ(config.stretch.index(), 0U);
  EXPECT_FALSE(config.qk_norm);
  EXPECT_EQ(config.head_dim, 128);
}

TEST(Flux2DevParity, AutoencoderWithANarrowDecoder) {
  at::NoGradGuard no_grad;
  auto source = vae::patch_tensors(test::golden(kModel + "vae/diffusion_pytorch_model.safetensors"));
  auto keys = vae::kl_keys(source);
  auto json = config_json(kModel + "vae/");
  auto config = vae::patch_config(json, io::shapes_in_our_names(source, keys));
  EXPECT_EQ(config.kl.block_out_channels, (std::vector<int64_t>{8, 8, 16, 16}));
  EXPECT_EQ(config.kl.decoder_channels, (std::vector<int64_t>{4, 8, 8, 12}));
  vae::PatchAutoencoder autoencoder(config, at::TensorOptions().device(at::kMeta));
  load(autoencoder, source, keys);
  auto file = test::golden(kFolder + "vae.safetensors");
  EXPECT_LE(relative_error(autoencoder.encode(on_device(file.tensor("image"))).mean_BCHW, file.tensor("mean")), tolerance(1e-5));
  EXPECT_LE(relative_error(autoencoder.decode(on_device(file.tensor("latents"))), file.tensor("decoded")), tolerance(1e-5));
  json["decoder_block_out_channels"] = {4, 8, 8, 8};
  EXPECT_THAT(test::error_of([&] { vae::patch_config(json, io::shapes_in_our_names(source, keys)); }),
              testing::HasSubstr("decoder_block_out_channels"));
}

TEST(Flux2DevKeys, OriginalNamesRoundTrip) {
  auto model = load_transformer();
  io::NamedTensors ours;
  for (auto& [path, slot] : model->parameters()) ours.emplace_back(path, slot->detach());
  test::Scratch scratch;
  auto file = (scratch / "original.safetensors").string();
  io::save_safetensors(file, flux2::original_keys().to_file(ours));
  auto source = io::TensorSource::open({file});
  for (const char* name : {"guidance_in.in_layer.weight", "guidance_in.out_layer.weight", "time_in.in_layer.weight"})
    EXPECT_TRUE(source.contains(name)) << name;
  auto config = flux2::detect(nullptr, io::shapes_in_our_names(source, flux2::original_keys()));
  EXPECT_TRUE(config.guidance_embeds);
  Transformer back(config, at::TensorOptions().device(at::kMeta));
  load(back, source, flux2::original_keys());
  auto slots = back.parameters();
  for (auto& [path, tensor] : ours) EXPECT_TRUE(at::equal(*slots.at(path), tensor)) << path;
  EXPECT_TRUE(flux2::foreign_layers(config).contains("lora_unet_guidance_in_out_layer"));
  EXPECT_FALSE(flux2::foreign_layers({}).contains("guidance_in.in_layer")) << "of klein";
}

TEST(Flux2DevConfig, PublishedSizesHaveThePublishedParameterCounts) {
  auto options = at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16);
  EXPECT_EQ(Transformer(flux2::dev(), options).num_bytes() / 2, 32'223'281'152);
  EXPECT_EQ(text::QwenEncoder(text::mistral_small_24b(), options).num_bytes() / 2, 22'901'314'560);
  auto json = nlohmann::json::parse(R"({"num_layers": 8, "num_single_layers": 48, "num_attention_heads": 48, "joint_attention_dim": 15360,
                                        "guidance_embeds": true})");
  auto config = flux2::detect(&json, {});
  EXPECT_EQ(config.hidden, flux2::dev().hidden);
  EXPECT_TRUE(config.guidance_embeds);
}

TEST(Flux2DevTokenizer, EncodesWithinTheTemplateAndPadsWhereTheSettingsSay) {
  const auto folder = test::golden_path(kModel + "tokenizer");
  const tokenizers::ChatTemplate chat{"<s>[SYSTEM_PROMPT]a[/SYSTEM_PROMPT][INST]", "[/INST]"};
  auto tokenizer = tokenizers::load_tekken(folder, chat);
  auto padded = tokenizer->encode_padded("cat", 40);
  EXPECT_EQ(padded.first_token, 40 - padded.num_tokens);
  EXPECT_EQ(padded.ids[0], 11);
  EXPECT_EQ(padded.ids[static_cast<size_t>(padded.first_token)], 1);
  EXPECT_EQ(padded.ids.back(), 4);
  // Without the settings' word it is the tokenizer's class that tells.
  test::Scratch scratch;
  for (const auto& [settings, first] : {std::pair(R"({"padding_side": "right"})", false),
                                        {R"({"tokenizer_class": "LlamaTokenizerFast"})", true},
                                        {R"({"tokenizer_class": "PreTrainedTokenizerFast"})", false},
                                        {"{}", true}}) {
    std::filesystem::copy_file(std::filesystem::path(folder) / "tokenizer.json", scratch / "tokenizer.json",
                               std::filesystem::copy_options::overwrite_existing);
    std::ofstream(scratch / "tokenizer_config.json") << settings;
    EXPECT_EQ(tokenizers::load_tekken(scratch / ".", chat)->encode_padded("cat", 40).first_token > 0, first) << settings;
  }
}

}  // namespace burnish::flux2_dev_test
