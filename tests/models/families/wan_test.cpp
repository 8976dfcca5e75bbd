// Parity of Wan's transformer with diffusers' on a small random model (tests/golden/make_wan.py).
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/wan/keys.h"
#include "models/families/wan/transformer.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"
#include "tokenizers/tidy_text.h"

namespace burnish::wan_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;
using wan::Transformer;

namespace {

const std::string kWanFolder = "wan_pipeline/model/transformer/";
constexpr int64_t kFilledLength = 12;

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kWanFolder, wan::detect, part);
}

/// The batch of the golden file: captions of 5 and of 9 tokens, which diffusers reads with zeros up to 12. Here a single row of zeros
/// stands for those behind the end of each.
struct WanBatch {
  io::TensorSource file = test::golden("wan_pipeline/transformer.safetensors");
  test::Captions captions{file};
  at::Tensor run(Transformer& model) const {
    const auto longest = captions.mask_BT.size(1);
    auto text = at::constant_pad_nd(captions.text_BTE, {0, 0, 0, 1});
    auto counts = at::constant_pad_nd(captions.mask_BT, {0, 1});
    counts.select(1, longest).copy_(kFilledLength - captions.mask_BT.sum(1));
    return model.forward({.noisy_BCFHW = on_device(file.tensor("in.noisy")),
                          .text_BTE = text,
                          .counts_BT = counts,
                          .modulation_BM = model.modulate(on_device(file.tensor("in.sigma")))});
  }
};

}  // namespace

TEST(Wan, ABatchAndItsGradientsAreThoseOfDiffusers) {
  auto model = load_transformer();
  WanBatch batch;
  auto out = batch.run(*model);
  EXPECT_LE(relative_error(out, batch.file.tensor("out")), tolerance(2e-6));
  test::backward(out, batch.file);
  test::expect_digests(*model, batch.file.below("grad."));
}

TEST(Wan, RecomputedBlocksGiveTheSameGradients) {
  auto model = load_transformer();
  test::recompute_blocks(*model);
  WanBatch batch;
  test::backward(batch.run(*model), batch.file);
  test::expect_digests(*model, batch.file.below("grad."));
}

TEST(Wan, GivenFramesAtTheTimeOfOthersChangeNothing) {
  auto model = load_transformer();
  WanBatch batch;
  auto whole = batch.run(*model);
  auto modulation = model->modulate(on_device(batch.file.tensor("in.sigma")));
  auto text = at::constant_pad_nd(batch.captions.text_BTE, {0, 0, 0, 1});
  auto counts = at::constant_pad_nd(batch.captions.mask_BT, {0, 1});
  counts.select(1, counts.size(1) - 1).copy_(kFilledLength - batch.captions.mask_BT.sum(1));
  auto split = model->forward({.noisy_BCFHW = on_device(batch.file.tensor("in.noisy")),
                               .text_BTE = text,
                               .counts_BT = counts,
                               .modulation_BM = modulation,
                               .given_modulation_BM = modulation,
                               .num_given = 1});
  EXPECT_LE(relative_error(split, whole), tolerance(1e-6));
  auto clean = model->forward({.noisy_BCFHW = on_device(batch.file.tensor("in.noisy")),
                               .text_BTE = text,
                               .counts_BT = counts,
                               .modulation_BM = modulation,
                               .given_modulation_BM = model->modulate(at::zeros_like(on_device(batch.file.tensor("in.sigma")))),
                               .num_given = 1});
  EXPECT_GT(relative_error(clean, whole), 1e-3) << "the time of given frames is not read";
}

namespace {

/// The small model that sees pictures through CLIP (tests/golden/make_wan_image.py); with `both`, first and last frame.
struct WanOfImage {
  explicit WanOfImage(bool sees_both) : both(sees_both) {
    const std::string folder = "wan_image/transformer/";
    auto weights = test::golden(folder + "diffusion_pytorch_model.safetensors");
    auto config = wan::detect(nullptr, weights.shapes());
    config.head_dim = 6;
    config.num_heads = 2;
    auto places = test::golden("wan_image/expected.safetensors").tensor("places");
    if (both) config.extras.image_places = places.size(1);
    model = std::make_unique<Transformer>(config, at::TensorOptions().device(at::kMeta));
    for (auto& [path, slot] : model->parameters()) {
      auto tensor = path.ends_with("pos_embed") ? places : weights.tensor(path);
      *slot = tensor.to(test::device(), at::kFloat, false, true).set_requires_grad(true);
    }
  }
  /// Diffusers takes the states of both frames one behind the other along the batch, here they are so along the tokens.
  at::Tensor states() const {
    auto all = file.tensor("in.states").unflatten(0, {2, 2});
    return on_device((both ? all.flatten(1, 2) : all.select(1, 0)).contiguous());
  }
  at::Tensor run() {
    test::Captions captions(file);
    auto text = at::constant_pad_nd(captions.text_BTE, {0, 0, 0, 1}), counts = at::constant_pad_nd(captions.mask_BT, {0, 1});
    counts.select(1, counts.size(1) - 1).copy_(512 - captions.mask_BT.sum(1));
    return model->forward({.noisy_BCFHW = on_device(file.tensor("in.noisy")),
                           .text_BTE = text,
                           .counts_BT = counts,
                           .modulation_BM = model->modulate(on_device(file.tensor("in.sigma"))),
                           .image_BNW = states()});
  }

  bool both;
  io::TensorSource file = test::golden("wan_image/transformer.safetensors");
  std::unique_ptr<Transformer> model;
};

}  // namespace

TEST(Wan, StatesOfPicturesAreReadAsDiffusersDoes) {
  for (bool both : {false, true}) {
    const std::string name = both ? "flf2v" : "i2v";
    WanOfImage wan(both);
    auto out = wan.run();
    EXPECT_LE(relative_error(out, wan.file.tensor(name + ".out")), tolerance(2e-6)) << name;
    test::backward(out, wan.file);
    const auto expected = wan.file.below(name + ".grad.");
    auto slots = wan.model->parameters();
    EXPECT_EQ(expected.names().size(), both ? 19U : 18U) << "norm, two linear layers and norm of the states, in blocks keys, values, norm";
    for (const auto& path : expected.names())
      EXPECT_LE(relative_error(test::digest(slots.at(path)->grad()), expected.tensor(path)), tolerance(1e-4)) << name << " " << path;
  }
}

TEST(Wan, OriginalNamesAreOurs) {
  auto model = load_transformer();
  io::NamedTensors ours;
  for (auto& [path, slot] : model->parameters()) ours.emplace_back(path, *slot);
  std::set<std::string> names;
  for (const auto& [name, tensor] : wan::original_keys().to_file(ours)) names.insert(name);
  for (const char* name : {"patch_embedding.weight", "text_embedding.2.bias", "time_embedding.0.weight", "time_projection.1.weight",
                           "head.head.bias", "head.modulation", "blocks.1.modulation", "blocks.0.norm3.weight",
                           "blocks.0.self_attn.norm_q.weight", "blocks.1.cross_attn.o.bias", "blocks.1.ffn.2.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const auto& name : names) EXPECT_FALSE(name.find("attn1") != name.npos || name.starts_with("condition")) << name;
}

TEST(Wan, PromptsAreTidiedAsTheOriginalDoes) {
  EXPECT_EQ(tokenizers::tidy_text("  a   red\n\tapple "), "a red apple");
  EXPECT_EQ(tokenizers::tidy_text("it\u2019s \u201cgood\u201d"), "it's \"good\"");
  EXPECT_EQ(tokenizers::tidy_text("Tom &amp;amp; Jerry &lt;3 &#65;&#x42; &nosuch; R&D"), "Tom & Jerry <3 AB &nosuch; R&D");
  EXPECT_EQ(tokenizers::tidy_text("a\u0007b\ufeff"), "ab");
  EXPECT_EQ(tokenizers::tidy_text("\x1b[1;31mred\x1b[0m \x1b[31"), "red [31");
  EXPECT_EQ(tokenizers::tidy_text(""), "");
}

TEST(Wan, PromptsAreMendedAsFtfyAndPythonDo) {
  const auto golden = nlohmann::json::parse(test::content(test::golden_path("wan_prompts.json")));
  ASSERT_GT(golden.at("prompts").size(), 800u);
  for (const auto& pair : golden.at("prompts"))
    EXPECT_EQ(tokenizers::tidy_text(pair[0].get<std::string>()), pair[1].get<std::string>()) << pair[0].dump(-1, ' ', true);
}

}  // namespace burnish::wan_test
