// Parity of LongCat-Video's transformer with its makers' class, as DiffSynth-Studio has it, on a small random model
// (tests/golden/make_longcat_video.py).
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/families/longcat_video/keys.h"
#include "models/families/longcat_video/transformer.h"
#include "tests/models/load.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::longcat_video_test {
using namespace burnish::models;
using longcat_video::Config;
using longcat_video::Transformer;
using test::on_device;
using test::relative_error;
using test::tolerance;
using testing::HasSubstr;

namespace {

const std::string kFolder = "longcat_video_pipeline/model/dit/";
constexpr int64_t kFilledLength = 12;

io::TensorSource file() { return test::golden(kFolder + "diffusion_pytorch_model.safetensors"); }
io::Shapes shapes() { return io::shapes_in_our_names(file(), longcat_video::fused_keys()); }
nlohmann::json config_json() { return io::read_json(test::golden_path(kFolder + "config.json")); }

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  auto json = config_json();
  auto model = std::make_unique<Transformer>(longcat_video::detect(&json, shapes()), at::TensorOptions().device(at::kMeta), part);
  auto source = file();
  auto slots = model->parameters();
  for (const auto& name : source.names()) {
    const auto match = longcat_video::fused_keys().to_ours(name);
    const auto parts = source.tensor(name).chunk(std::ssize(match.ours), 0);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (auto slot = slots.find(match.ours[i]); slot != slots.end())
        *slot->second = parts[i].contiguous().to(test::device(), at::kFloat).set_requires_grad(true);
    }
  }
  return model;
}

/// The batch of the golden file: captions of 5 and of 9 tokens, which are filled up to 12 there. Here a single row of zeros stands for
/// those behind the end of each.
struct LongCatBatch : test::CaptionedBatch {
  LongCatBatch() : CaptionedBatch("longcat_video_pipeline/transformer.safetensors") {}
  LongCatBatch(const CaptionedBatch& batch, int64_t given) : CaptionedBatch(batch), num_given(given) {}
  at::Tensor run(Transformer& modulation, Transformer& body) const {
    auto counts = at::constant_pad_nd(mask_BT, {0, 1});
    counts.select(1, mask_BT.size(1)).copy_(kFilledLength - mask_BT.sum(1));
    Transformer::Inputs in{.noisy_BCFHW = noisy_BCHW,
                           .text_BTE = at::constant_pad_nd(text_BTE, {0, 0, 0, 1}),
                           .counts_BT = counts,
                           .modulation_BM = modulation.modulate(sigma_B),
                           .num_given = num_given};
    if (num_given > 0) in.given_modulation_BM = modulation.modulate(at::zeros_like(sigma_B));
    return body.forward(in);
  }
  at::Tensor run(Transformer& model) const { return run(model, model); }
  int64_t num_given = 0;
};

LongCatBatch with_given(int64_t count) {
  LongCatBatch batch;
  batch.num_given = count;
  return batch;
}

}  // namespace

TEST(LongCatVideo, ABatchAndItsGradientsAreThoseOfTheMakersClass) {
  auto model = load_transformer();
  LongCatBatch batch;
  test::expect_parity(*model, batch.file, batch.run(*model), 1e-5);
}

// Frames without noise attend to themselves alone and see no text.
TEST(LongCatVideo, WithGivenFramesItIsTheMakersClassToo) {
  auto model = load_transformer();
  const auto batch = with_given(2);
  const auto expected = batch.file.below("given.");
  test::expect_parity(*model, expected, batch.run(*model), 1e-5);
  at::NoGradGuard no_grad;
  auto otherwise = batch;
  otherwise.noisy_BCHW = batch.noisy_BCHW.clone();
  otherwise.noisy_BCHW.select(2, 2).add_(1);
  EXPECT_TRUE(at::equal(otherwise.run(*model).narrow(2, 0, 2), batch.run(*model).narrow(2, 0, 2)));
  EXPECT_GT(relative_error(batch.run(*model), LongCatBatch().run(*model)), 1e-2);
}

TEST(LongCatVideo, RecomputedBlocksGiveTheSameGradients) {
  for (const int64_t num_given : {0, 2}) {
    const auto batch = with_given(num_given);
    test::expect_recomputed_equal(load_transformer(), load_transformer(), batch.file, [&](Transformer& model) { return batch.run(model); });
  }
}

TEST(LongCatVideo, ABatchIsItsSamples) {
  at::NoGradGuard no_grad;
  auto model = load_transformer();
  for (const int64_t num_given : {0, 1}) {
    const auto batch = with_given(num_given);
    test::expect_samples(batch.run(*model), [&](int64_t b) { return LongCatBatch(batch.one(b), num_given).run(*model); });
  }
}

TEST(LongCatVideo, TwoPartsAreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_transformer();
  auto modulation = load_transformer(mmdit::layers_of_part("dit.modulation")), body = load_transformer(mmdit::layers_of_part("dit.body"));
  EXPECT_EQ(modulation->num_bytes() + body->num_bytes(), whole->num_bytes());
  EXPECT_TRUE(at::equal(with_given(1).run(*modulation, *body), with_given(1).run(*whole)));
}

TEST(LongCatVideo, NumbersAreReadFromTensorsAndFromConfigJson) {
  auto json = config_json();
  for (const auto& c :
       {longcat_video::detect(&json, shapes()), longcat_video::detect(nullptr, shapes()), longcat_video::detect(&json, {})}) {
    EXPECT_EQ(c.width, 32);
    EXPECT_EQ(c.num_heads, 2);
    EXPECT_EQ(c.num_layers, 2);
    EXPECT_EQ(c.hidden, 256);
    EXPECT_EQ(c.caption_width, 16);
    EXPECT_EQ(c.time_channels, 32);
    EXPECT_EQ(c.time_width, 12);
  }
  const nlohmann::json published{{"hidden_size", 4096}, {"mlp_ratio", 4}};
  EXPECT_EQ(longcat_video::detect(&published, {}).hidden, Config().hidden);
  EXPECT_EQ(Config().axes_dims(), (std::vector<int64_t>{44, 42, 42}));
}

TEST(LongCatVideo, AConfigThatDoesNotFitIsRefused) {
  auto refusal = [](const char* key, const nlohmann::json& value) -> std::string {
    auto json = config_json();
    json[key] = value;
    try {
      longcat_video::detect(&json, shapes());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("hidden_size", 48), HasSubstr("hidden_size"));
  EXPECT_THAT(refusal("num_heads", 4), HasSubstr("num_heads"));
  EXPECT_THAT(refusal("text_tokens_zero_pad", false), HasSubstr("text_tokens_zero_pad = false; true was expected"));
  EXPECT_THAT(refusal("patch_size", nlohmann::json::array({2, 2, 2})), HasSubstr("patch_size"));
  EXPECT_EQ(refusal("enable_bsa", true), "");
}

TEST(LongCatVideo, FilesOfComfyUiHaveWansNames) {
  auto model = load_transformer();
  io::NamedTensors ours;
  for (auto& [path, slot] : model->parameters()) ours.emplace_back(path, *slot);
  std::set<std::string> names;
  for (const auto& [name, tensor] : longcat_video::wrapper_keys().to_file(ours)) names.insert(name);
  EXPECT_EQ(names.size(), ours.size());
  for (const char* name : {"patch_embedding.weight", "time_embedding.mlp.2.bias", "text_embedding.0.weight", "head.head.bias",
                           "head.modulation.1.weight", "blocks.1.modulation.1.bias", "blocks.0.norm3.weight", "blocks.0.self_attn.q.weight",
                           "blocks.0.self_attn.norm_k.weight", "blocks.1.cross_attn.o.bias", "blocks.1.ffn.w3.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  std::set<std::string> fused;
  for (const auto& [name, tensor] : longcat_video::fused_keys().to_file(ours)) fused.insert(name);
  const auto published = file().names();
  EXPECT_EQ(fused, std::set<std::string>(published.begin(), published.end()));
}

}  // namespace burnish::longcat_video_test
