// Parity of Stable Diffusion 3.5's transformer with diffusers' on a small random model (tests/golden/make_sd3.py).
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"
#include "models/families/sd3/keys.h"
#include "models/families/sd3/transformer.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"

namespace burnish::sd3_test {
using namespace burnish::models;
using sd3::Transformer;
using test::on_device;
using test::relative_error;
using test::tolerance;
using testing::HasSubstr;

namespace {

const std::string kSd3Folder = "sd3_pipeline/model/transformer/", kPlaces = "pos_embed.pos_embed";

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  const auto json = io::read_json(test::golden_path(kSd3Folder + "config.json"));
  const auto file = test::golden(kSd3Folder + "diffusion_pytorch_model.safetensors");
  auto model = std::make_unique<Transformer>(sd3::detect(&json, file.shapes()), at::TensorOptions().device(at::kMeta), part);
  for (auto& [path, slot] : model->parameters())
    *slot = file.tensor(path).to(test::device(), at::kFloat).set_requires_grad(path != kPlaces);
  return model;
}

struct Sd3Batch {
  io::TensorSource file = test::golden("sd3_pipeline/transformer.safetensors");
  at::Tensor of(const char* name) const { return on_device(file.tensor(std::string("in.") + name)); }
  at::Tensor modulation(Transformer& model) const { return model.modulate(model.condition(of("sigma"), of("pooled"))); }
  at::Tensor run(Transformer& model) const {
    return model.forward({.noisy_BCHW = of("noisy"), .text_BTE = of("text"), .modulation_BM = modulation(model)});
  }
};

void expect_gradients(Transformer& model, const io::TensorSource& expected) {
  auto slots = model.parameters();
  EXPECT_EQ(slots.size(), expected.names().size() + 1);  // and the table of places, which nothing trains
  for (auto& [path, slot] : slots) {
    if (path == kPlaces) continue;
    ASSERT_TRUE(slot->grad().defined()) << path;
    EXPECT_LE(relative_error(test::digest(slot->grad()), expected.tensor(path)), tolerance(1e-4)) << path;
  }
}

io::NamedTensors tensors_of(Transformer& model) {
  io::NamedTensors all;
  for (auto& [path, slot] : model.parameters()) all.emplace_back(path, slot->detach());
  return all;
}

}  // namespace

TEST(Sd3, ABatchAndItsGradientsAreThoseOfDiffusers) {
  auto model = load_transformer();
  Sd3Batch batch;
  auto out = batch.run(*model);
  EXPECT_LE(relative_error(out, batch.file.tensor("out")), tolerance(1e-5));
  test::backward(out, batch.file);
  expect_gradients(*model, batch.file.below("grad."));
}

TEST(Sd3, RecomputedBlocksGiveTheSameGradients) {
  auto model = load_transformer();
  test::recompute_blocks(*model);
  Sd3Batch batch;
  test::backward(batch.run(*model), batch.file);
  expect_gradients(*model, batch.file.below("grad."));
}

TEST(Sd3, APartOfTheBlocksAndWhatFollowsAreTheWhole) {
  at::NoGradGuard no_grad;
  Sd3Batch batch;
  auto whole = load_transformer();
  const auto expected = batch.run(*whole);
  for (int64_t first : {1, 2, 3}) {
    auto begin = load_transformer({.begin = 0, .end = first}), end = load_transformer({.begin = first});
    const auto conditioning = begin->condition(batch.of("sigma"), batch.of("pooled"));
    const auto hidden =
        begin->forward({.noisy_BCHW = batch.of("noisy"), .text_BTE = batch.of("text"), .modulation_BM = begin->modulate(conditioning)});
    const auto out =
        end->forward({.noisy_BCHW = batch.of("noisy"), .text_BTE = {}, .modulation_BM = end->modulate(conditioning), .hidden_BLD = hidden});
    EXPECT_TRUE(at::equal(out, expected)) << first;
  }
}

TEST(Sd3, OriginalNamesAreOurs) {
  auto model = load_transformer();
  const auto theirs = sd3::original_keys(3).to_file(tensors_of(*model));
  std::map<std::string, at::Tensor> by_name(theirs.begin(), theirs.end());
  for (const char* name : {"pos_embed", "x_embedder.proj.weight", "y_embedder.mlp.2.bias", "joint_blocks.1.x_block.attn2.qkv.weight",
                           "joint_blocks.1.x_block.attn2.ln_k.weight", "joint_blocks.2.context_block.attn.qkv.bias",
                           "joint_blocks.0.context_block.mlp.fc2.weight", "joint_blocks.2.x_block.adaLN_modulation.1.weight"})
    EXPECT_TRUE(by_name.contains(name)) << name;
  for (const auto& [name, tensor] : by_name) EXPECT_FALSE(name.starts_with("transformer_blocks.")) << name;
  // Where a norm is modulated last, shift stands before scale there; elsewhere the order is ours.
  auto slots = model->parameters();
  auto swapped = [&](const std::string& path) {
    auto halves = slots.at(path)->detach().chunk(2);
    return at::cat({halves[1], halves[0]});
  };
  EXPECT_TRUE(at::equal(by_name.at("final_layer.adaLN_modulation.1.weight"), swapped("norm_out.linear.weight")));
  EXPECT_TRUE(at::equal(by_name.at("joint_blocks.2.context_block.adaLN_modulation.1.bias"),
                        swapped("transformer_blocks.2.norm1_context.linear.bias")));
  EXPECT_TRUE(at::equal(by_name.at("joint_blocks.0.context_block.adaLN_modulation.1.bias"),
                        slots.at("transformer_blocks.0.norm1_context.linear.bias")->detach()));
}

TEST(Sd3, ConfigIsReadFromTensorsAndFromConfigJson) {
  const auto json = io::read_json(test::golden_path(kSd3Folder + "config.json"));
  const auto shapes = test::golden(kSd3Folder + "diffusion_pytorch_model.safetensors").shapes();
  for (const auto& config : {sd3::detect(nullptr, shapes), sd3::detect(&json, {})}) {
    EXPECT_EQ(config.num_layers, 3);
    EXPECT_EQ(config.width(), 32);
    EXPECT_EQ(config.most_places, 32);
    EXPECT_EQ(config.dual_layers, std::vector<int64_t>{1});
    EXPECT_EQ(config.pooled_width, 24);
  }
  auto other = json;
  other["dual_attention_layers"] = {0};
  EXPECT_THROW(sd3::detect(&other, shapes), Error);
}

TEST(Sd3, WithoutNormsOfQueriesItIsRefused) {
  auto shapes = test::golden(kSd3Folder + "diffusion_pytorch_model.safetensors").shapes();
  std::erase_if(shapes, [](const auto& tensor) {
    return tensor.first.find("norm_") != std::string::npos && tensor.first.find("attn") != std::string::npos;
  });
  try {
    sd3::detect(nullptr, shapes);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::data);
    EXPECT_THAT(error.what(), HasSubstr("no norms of queries and keys, as Stable Diffusion 3 Medium of 2024"));
  }
}

TEST(Sd3, APictureBeyondTheTableOfPlacesIsRefused) {
  auto model = load_transformer();
  Sd3Batch batch;
  const auto modulation = batch.modulation(*model);
  try {
    model->forward({.noisy_BCHW = at::zeros({2, 16, 66, 8}, test::device()), .text_BTE = batch.of("text"), .modulation_BM = modulation});
    FAIL() << "it was run";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("4 by 33 tokens, and the transformer's table has places for 32 along a side"));
  }
}

/// What a transformer from scratch begins with is what diffusers' begins with.
TEST(Sd3, PlacesFromScratchAreSinusoids) {
  sd3::Config config{
      .num_layers = 1, .head_dim = 8, .num_heads = 2, .caption_width = 4, .pooled_width = 4, .most_places = 8, .dual_layers = {}};
  Transformer model(config, at::TensorOptions().dtype(at::kFloat));
  model.initialise(1);
  const auto places = model.parameters().at(kPlaces)->view({8, 8, 16});
  // Place (row 3, column 5) sits at 40 and 24 on a side of 64; the column's waves stand first, sines before cosines.
  const auto at_35 = places[3][5];
  for (int64_t i = 0; i < 4; ++i) {
    const auto frequency = std::pow(10000.0, -static_cast<double>(i) / 4);
    EXPECT_NEAR(at_35[i].item<double>(), std::sin(40 * frequency), 1e-6);
    EXPECT_NEAR(at_35[4 + i].item<double>(), std::cos(40 * frequency), 1e-6);
    EXPECT_NEAR(at_35[8 + i].item<double>(), std::sin(24 * frequency), 1e-6);
    EXPECT_NEAR(at_35[12 + i].item<double>(), std::cos(24 * frequency), 1e-6);
  }
}

}  // namespace burnish::sd3_test
