// Parity of Kandinsky 5's transformer with diffusers' on a small random model (tests/golden/make_kandinsky5.py).
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/families/kandinsky5/transformer.h"
#include "tests/models/load.h"
#include "tests/models/transformer_parity.h"

namespace burnish::kandinsky5_test {
using namespace burnish::models;
using kandinsky5::Transformer;
using test::CaptionedBatch;
using test::on_device;
using test::relative_error;
using test::tolerance;
using testing::HasSubstr;

namespace {

const std::string kFolder = "kandinsky5_pipeline/model/transformer/";

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kFolder, kandinsky5::detect, part);
}

/// A batch with what CLIP makes of its texts.
struct Kandinsky5Batch : CaptionedBatch {
  explicit Kandinsky5Batch(const std::string& golden = "kandinsky5_pipeline/batch.safetensors")
      : CaptionedBatch(golden), pooled_BP(on_device(file.tensor("in.pooled"))) {}
  Transformer::Inputs inputs(const at::Tensor& modulation) const {
    return {.noisy_BCHW = noisy_BCHW, .text_BTE = text_BTE, .mask_BT = mask_BT, .modulation_BM = modulation};
  }
  at::Tensor run(Transformer& model) const { return model.forward(inputs(model.modulate(model.condition(sigma_B, pooled_BP)))); }
  Kandinsky5Batch only(int64_t b) const {
    auto sample = *this;
    static_cast<CaptionedBatch&>(sample) = one(b);
    sample.pooled_BP = pooled_BP.narrow(0, b, 1);
    return sample;
  }
  at::Tensor pooled_BP;
};

io::Shapes shapes() { return test::golden(kFolder + "diffusion_pytorch_model.safetensors").shapes(); }
nlohmann::json config_json() { return io::read_json(test::golden_path(kFolder + "config.json")); }

void expect_refused(const nlohmann::json* json, const io::Shapes& of, const std::string& said) {
  try {
    kandinsky5::detect(json, of);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::data);
    EXPECT_THAT(error.what(), HasSubstr(said));
  }
}

}  // namespace

TEST(Kandinsky5, ABatchAndItsGradientsAreThoseOfDiffusers) {
  auto model = load_transformer();
  Kandinsky5Batch batch;
  test::expect_parity(*model, batch.file, batch.run(*model), 1e-5);
}

TEST(Kandinsky5, RecomputedBlocksGiveTheSameGradients) {
  Kandinsky5Batch batch;
  test::expect_recomputed_equal(load_transformer(), load_transformer(), batch.file, [&](Transformer& model) { return batch.run(model); });
}

TEST(Kandinsky5, ABatchIsItsSamplesAndPaddingIsNotRead) {
  at::NoGradGuard no_grad;
  auto model = load_transformer();
  Kandinsky5Batch batch;
  const auto together = batch.run(*model);
  test::expect_samples(together, [&](int64_t b) { return batch.only(b).run(*model); });
  auto other = batch;
  static_cast<CaptionedBatch&>(other) = batch.filled_otherwise();
  EXPECT_TRUE(at::equal(other.run(*model), together));
}

TEST(Kandinsky5, APartOfTheBlocksAndWhatFollowsAreTheWhole) {
  at::NoGradGuard no_grad;
  Kandinsky5Batch batch;
  const auto expected = batch.run(*load_transformer());
  for (int64_t first : {1, 2, 3, 5}) {
    auto begin = load_transformer({.begin = 0, .end = first}), end = load_transformer({.begin = first});
    const auto conditioning = begin->condition(batch.sigma_B, batch.pooled_BP);
    const auto hidden = begin->forward(batch.inputs(begin->modulate(conditioning)));
    auto rest = batch.inputs(end->modulate(conditioning));
    rest.text_BTE = at::Tensor();
    rest.hidden_BLD = hidden;
    EXPECT_TRUE(at::equal(end->forward(rest), expected)) << first;
  }
}

TEST(Kandinsky5, ConfigIsReadFromTensorsAndFromConfigJson) {
  const auto json = config_json();
  for (const auto& config : {kandinsky5::detect(nullptr, shapes()), kandinsky5::detect(&json, {})}) {
    EXPECT_EQ(config.channels, 16);
    EXPECT_EQ(config.num_text_blocks, 2);
    EXPECT_EQ(config.num_blocks, 3);
    EXPECT_EQ(config.width, 32);
    EXPECT_EQ(config.head_dim(), 16);
    EXPECT_EQ(config.hidden, 48);
    EXPECT_EQ(config.time_width, 12);
    EXPECT_EQ(config.caption_width, 16);
    EXPECT_EQ(config.pooled_width, 8);
    EXPECT_EQ(config.axes_dims, (std::vector<int64_t>{4, 6, 6}));
  }
  auto other = json;
  other["num_visual_blocks"] = 38;
  EXPECT_THROW(kandinsky5::detect(&other, shapes()), Error);
}

/// The transformers of clips have the same names.
TEST(Kandinsky5, TransformersOfClipsAreRefused) {
  auto json = config_json();
  for (const int64_t width : {1792, 4096}) {
    json["model_dim"] = width;
    expect_refused(&json, {}, "as those of Kandinsky 5's video models are");
  }
  json = config_json();
  json["attention_type"] = "nabla";
  expect_refused(&json, {}, "attention_type");
}

/// The model that changes pictures reads one beside the noise.
TEST(Kandinsky5, AGivenPictureStandsBesideTheNoise) {
  const std::string folder = "kandinsky5_edit_pipeline/model/transformer/";
  const auto file = test::golden("kandinsky5_edit_pipeline/batch.safetensors");
  auto model = test::load_trained<Transformer>(folder, kandinsky5::detect, mmdit::HeldLayers{});
  EXPECT_TRUE(model->config().reads_picture);
  Kandinsky5Batch batch("kandinsky5_edit_pipeline/batch.safetensors");
  auto inputs = batch.inputs(model->modulate(model->condition(batch.sigma_B, batch.pooled_BP)));
  inputs.given_BCHW = on_device(file.tensor("in.given"));
  test::expect_parity(*model, file, model->forward(inputs), 1e-5);
  const auto config = io::read_json(test::golden_path(folder + "config.json"));
  EXPECT_TRUE(kandinsky5::detect(&config, {}).reads_picture);
  auto other = config;
  other["visual_cond"] = false;
  expect_refused(&other, test::golden(folder + "diffusion_pytorch_model.safetensors").shapes(), "visual_cond");
}

TEST(Kandinsky5, OtherChannelsAreRefused) {
  auto other = shapes();
  other["visual_embeddings.in_layer.weight"] = {32, 100};
  expect_refused(nullptr, other, "reads 100 numbers of a patch and makes 64");
}

}  // namespace burnish::kandinsky5_test
