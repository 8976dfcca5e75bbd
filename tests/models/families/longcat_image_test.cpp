// Parity of LongCat-Image's transformer with diffusers' on a small random model (tests/golden/make_longcat_image.py).
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/families/longcat_image/keys.h"
#include "models/families/longcat_image/transformer.h"
#include "tests/models/load.h"
#include "tests/models/transformer_parity.h"

namespace burnish::longcat_image_test {
using namespace burnish::models;
using longcat_image::Transformer;
using test::on_device;
using test::relative_error;
using test::tolerance;
using testing::HasSubstr;

namespace {

const std::string kFolder = "longcat_image_pipeline/model/transformer/";

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kFolder, longcat_image::detect, part);
}

struct LongCatBatch {
  io::TensorSource file = test::golden("longcat_image_pipeline/transformer.safetensors");
  at::Tensor of(const char* name) const { return on_device(file.tensor(std::string("in.") + name)); }
  Transformer::Inputs inputs(const at::Tensor& modulation) const {
    return {.noisy_BCHW = of("noisy"), .text_BTE = of("text"), .modulation_BM = modulation};
  }
  at::Tensor run(Transformer& model) const { return model.forward(inputs(model.modulate(model.condition(of("sigma"), at::kFloat)))); }
};

io::Shapes shapes() { return test::golden(kFolder + "diffusion_pytorch_model.safetensors").shapes(); }

}  // namespace

TEST(LongCatImage, ABatchAndItsGradientsAreThoseOfDiffusers) {
  auto model = load_transformer();
  LongCatBatch batch;
  auto out = batch.run(*model);
  EXPECT_LE(relative_error(out, batch.file.tensor("out")), tolerance(1e-5));
  test::backward(out, batch.file);
  test::expect_digests(*model, batch.file.below("grad."));
}

TEST(LongCatImage, RecomputedBlocksGiveTheSameGradients) {
  auto model = load_transformer();
  test::recompute_blocks(*model);
  LongCatBatch batch;
  test::backward(batch.run(*model), batch.file);
  test::expect_digests(*model, batch.file.below("grad."));
}

TEST(LongCatImage, ABatchIsItsSamples) {
  at::NoGradGuard no_grad;
  auto model = load_transformer();
  LongCatBatch batch;
  const auto all = batch.run(*model);
  for (int64_t b = 0; b < 2; ++b) {
    const auto modulation = model->modulate(model->condition(batch.of("sigma").narrow(0, b, 1), at::kFloat));
    const auto one = model->forward(
        {.noisy_BCHW = batch.of("noisy").narrow(0, b, 1), .text_BTE = batch.of("text").narrow(0, b, 1), .modulation_BM = modulation});
    EXPECT_LE(relative_error(one, all.narrow(0, b, 1)), tolerance(1e-5)) << b;
  }
}

TEST(LongCatImage, APartOfTheBlocksAndWhatFollowsAreTheWhole) {
  at::NoGradGuard no_grad;
  LongCatBatch batch;
  const auto expected = batch.run(*load_transformer());
  for (int64_t first : {1, 2, 4, 5}) {
    auto begin = load_transformer({.begin = 0, .end = first}), end = load_transformer({.begin = first});
    const auto conditioning = begin->condition(batch.of("sigma"), at::kFloat);
    const auto hidden = begin->forward(batch.inputs(begin->modulate(conditioning)));
    const auto out =
        end->forward({.noisy_BCHW = batch.of("noisy"), .text_BTE = {}, .modulation_BM = end->modulate(conditioning), .hidden_BLD = hidden});
    EXPECT_TRUE(at::equal(out, expected)) << first;
  }
}

TEST(LongCatImage, OriginalNamesAreOurs) {
  auto model = load_transformer();
  io::NamedTensors ours;
  for (auto& [path, slot] : model->parameters()) ours.emplace_back(path, slot->detach());
  const auto theirs = longcat_image::original_keys().to_file(ours);
  std::map<std::string, at::Tensor> by_name(theirs.begin(), theirs.end());
  for (const char* name : {"img_in.weight", "txt_in.bias", "time_in.in_layer.weight", "double_blocks.1.img_attn.qkv.weight",
                           "double_blocks.0.txt_mod.lin.weight", "double_blocks.0.img_attn.norm.query_norm.scale",
                           "single_blocks.2.linear1.weight", "single_blocks.0.modulation.lin.bias", "final_layer.linear.weight"})
    EXPECT_TRUE(by_name.contains(name)) << name;
  const auto halves = model->parameters().at("norm_out.linear.weight")->detach().chunk(2);
  EXPECT_TRUE(at::equal(by_name.at("final_layer.adaLN_modulation.1.weight"), at::cat({halves[1], halves[0]})));
  std::map<std::string, at::Tensor> back;
  for (const auto& [name, tensor] : ours) back[name] = tensor;
  for (const auto& [name, tensor] : by_name) EXPECT_FALSE(back.contains(name)) << name;
}

TEST(LongCatImage, ConfigIsReadFromTensorsAndFromConfigJson) {
  const auto json = io::read_json(test::golden_path(kFolder + "config.json"));
  for (const auto& config : {longcat_image::detect(nullptr, shapes()), longcat_image::detect(&json, {})}) {
    EXPECT_EQ(config.num_double_blocks, 2);
    EXPECT_EQ(config.num_single_blocks, 3);
    EXPECT_EQ(config.width(), 32);
    EXPECT_EQ(config.caption_width, 16);
    EXPECT_EQ(config.axes_dims, (std::vector<int64_t>{4, 6, 6}));
  }
  auto other = json;
  other["num_single_layers"] = 38;
  EXPECT_THROW(longcat_image::detect(&other, shapes()), Error);
}

TEST(LongCatImage, WithOtherMlpsItIsRefused) {
  auto other = shapes();
  other["transformer_blocks.0.ff.net.0.proj.weight"] = {256, 32};
  try {
    longcat_image::detect(nullptr, other);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::data);
    EXPECT_THAT(error.what(), HasSubstr("MLPs are 256 wide"));
  }
}

}  // namespace burnish::longcat_image_test
