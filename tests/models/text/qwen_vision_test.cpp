// Parity of pictures within texts with transformers' Qwen2_5_VL and its processor on a small random model (tests/golden/make_qwen_edit.py).
#include "models/text/qwen_vision.h"

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/text/qwen.h"
#include "models/text/resample.h"
#include "tests/golden.h"
#include "tests/models/compared.h"
#include "tests/scratch.h"

namespace burnish::qwen_vision_test {
using namespace burnish::models;
using test::load_weights;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kFolder = "qwen_edit_pipeline/model/text_encoder/";

struct Golden {
  io::TensorSource file = test::golden("qwen_edit_pipeline/vision.safetensors");
  io::TensorSource weights = test::golden(kFolder + "model.safetensors");
  nlohmann::json json = io::read_json(test::golden_path(kFolder + "config.json"));
  io::TensorSource tower = weights.below("model.visual.");
  text::VisionConfig config = text::vision_config(json, tower.shapes());
  text::PixelRule rule = text::pixel_rule(io::read_json(test::golden_path("qwen_edit_pipeline/model/processor/preprocessor_config.json")));

  text::Patches patches(int i) const {
    auto image = file.tensor(std::to_string(i) + ".image").permute({2, 0, 1});
    return text::patches_of(image.to(at::kDouble), config, rule);
  }
};

/// Fills a module in fp32.
void load_wide(nn::Module& module, const io::TensorSource& source) {
  for (auto& [path, slot] : module.parameters()) *slot = source.tensor(path).to(test::device(), at::kFloat);
}

}  // namespace

TEST(QwenVisionParity, PicturesAreScaledToTheBytesOfPillow) {
  Golden golden;
  auto mean = at::tensor({0.48145466, 0.4578275, 0.40821073}).view({3, 1}),
       deviation = at::tensor({0.26862954, 0.26130258, 0.27577711}).view({3, 1});
  for (int i = 0; i < 3; ++i) {
    auto pixels = golden.patches(i).pixels_NF;
    auto first_frame = pixels.view({-1, 3, 2, 14 * 14}).select(2, 0).to(at::kDouble);
    auto levels = ((first_frame * deviation + mean) * 255).round().flatten(1);
    EXPECT_TRUE(at::equal(levels.to(at::kByte), golden.file.tensor(std::to_string(i) + ".levels"))) << i;
    EXPECT_LE(relative_error(test::digest(pixels), golden.file.tensor(std::to_string(i) + ".pixels")), tolerance(1e-6)) << i;
  }
}

TEST(QwenVisionParity, TokensOfPictures) {
  at::NoGradGuard no_grad;
  Golden golden;
  text::QwenVision tower(golden.config, at::TensorOptions().device(at::kMeta));
  load_wide(tower, golden.tower);
  for (int i = 0; i < 3; ++i) {
    auto seen = tower.forward(golden.patches(i));
    EXPECT_LE(relative_error(seen.flatten(0, 1), golden.file.tensor(std::to_string(i) + ".seen")), tolerance(1e-5)) << i;
  }
}

TEST(QwenVisionParity, StatesOfATextWithPictures) {
  at::NoGradGuard no_grad;
  Golden golden;
  auto source = text::qwen_tensors(golden.weights);
  auto config = text::qwen_config(golden.json, source.shapes());
  EXPECT_EQ(config.sections, (std::vector<int64_t>{2, 1, 1}));
  text::QwenEncoder encoder(config, at::TensorOptions().device(at::kMeta));
  load_wide(encoder, source);
  std::vector<text::SeenPicture> pictures;
  int64_t first = 3;
  for (int i = 0; i < 2; ++i) {
    auto seen = on_device(golden.file.tensor(std::to_string(i) + ".seen"));
    auto patches = golden.patches(i);
    pictures.push_back({first, seen.view({patches.rows, patches.columns, -1})});
    first += seen.size(0) + 2;
  }
  auto states = encoder.forward(on_device(golden.file.tensor("ids")), {config.num_layers}, pictures).front();
  EXPECT_LE(relative_error(states, golden.file.tensor("states")), tolerance(1e-5));
}

TEST(QwenVision, TheSizeThatIsShownFollowsTheRule) {
  text::VisionConfig config;
  auto shown = [&](int64_t height, int64_t width, int64_t least, int64_t most) {
    return text::shown_size(height, width, config, {.least = least, .most = most});
  };
  using Sides = std::pair<int64_t, int64_t>;
  // transformers' smart_resize of the same numbers.
  EXPECT_EQ(shown(1024, 1024, 3136, 12845056), Sides(1036, 1036));
  EXPECT_EQ(shown(1024, 1024, 3136, 1003520), Sides(980, 980));
  EXPECT_EQ(shown(384, 384, 3136, 1003520), Sides(392, 392));
  EXPECT_EQ(shown(10, 1500, 3136, 1003520), Sides(28, 700));
  EXPECT_EQ(shown(20, 30, 3136, 1003520), Sides(56, 84));
  EXPECT_EQ(shown(42, 70, 784, 1003520), Sides(56, 56)) << "half a cell is rounded to even";
  EXPECT_NE(test::error_of([&] { shown(10, 2100, 3136, 1003520); }).find("200 times as long"), std::string::npos);
}

TEST(QwenVision, DamagedNumbersAreErrors) {
  Golden golden;
  for (const auto& [key, value] : std::map<std::string, nlohmann::json>{{"num_heads", 5}, {"window_size", 0}, {"spatial_merge_size", 0}}) {
    auto json = golden.json;
    json["vision_config"][key] = value;
    EXPECT_NE(test::error_of([&] { text::vision_config(json, golden.tower.shapes()); }), "") << key;
  }
  auto of_tower = [&](const nlohmann::json& vision) {
    auto json = golden.json;
    json["vision_config"] = vision;
    text::vision_config(json, golden.tower.shapes());
  };
  test::expect_compared(golden.json.at("vision_config"),
                        {"hidden_size", "intermediate_size", "depth", "patch_size", "temporal_patch_size", "out_hidden_size", "in_channels",
                         "spatial_merge_size"},
                        of_tower);
  EXPECT_NE(test::error_of([&] { text::pixel_rule({{"size", {{"shortest_edge", 100}, {"longest_edge", 10}}}}); }), "");
  auto json = golden.json;
  json["text_config"]["rope_parameters"]["mrope_section"] = {2, 2, 2};
  EXPECT_NE(test::error_of([&] { text::qwen_config(json, text::qwen_tensors(golden.weights).shapes()); }).find("mrope_section"),
            std::string::npos);
}

/// Wider and narrower, rows first and columns first (tests/golden/make_resample.py).
TEST(Resampled, EqualsPillowBitForBit) {
  auto golden = test::golden("resample.safetensors");
  int num_compared = 0;
  for (const auto& name : golden.names()) {
    const bool is_lanczos = name.starts_with("lanczos.");
    if (!is_lanczos && !name.starts_with("bicubic.")) continue;
    auto expected = golden.tensor(name), source = golden.tensor("source." + name.substr(8, name.find('.', 8) - 8));
    auto found = text::resampled(source.permute({2, 0, 1}).to(at::kDouble), expected.size(0), expected.size(1),
                                 is_lanczos ? text::Filter::lanczos : text::Filter::bicubic);
    EXPECT_TRUE(at::equal(found.permute({1, 2, 0}).to(at::kByte), expected)) << name;
    ++num_compared;
  }
  EXPECT_EQ(num_compared, 14);
}

TEST(Resampled, OfOneSizeIsItself) {
  auto levels = at::arange(2 * 3 * 4, at::kDouble).view({2, 3, 4});
  EXPECT_TRUE(at::equal(text::resampled(levels, 3, 4, text::Filter::lanczos), levels));
  EXPECT_TRUE(at::equal(text::to_levels(text::from_levels(levels)), levels));
}

}  // namespace burnish::qwen_vision_test
