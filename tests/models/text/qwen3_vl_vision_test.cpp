// Parity of pictures within texts with transformers' Qwen3VLModel and its processor on a small random model
// (tests/golden/make_qwen3_vl.py).
#include "models/text/qwen3_vl_vision.h"

#include <nlohmann/json.hpp>

#include "models/text/qwen.h"
#include "tests/golden.h"
#include "tests/models/compared.h"
#include "tests/scratch.h"

namespace burnish::qwen3_vl_vision_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

struct Golden {
  io::TensorSource file = test::golden("qwen3_vl.safetensors");
  nlohmann::json json = nlohmann::json::parse(file.metadata().at("config"));
  io::TensorSource tower = file.below("w.visual.");
  text::Qwen3VlVisionConfig config = text::qwen3_vl_vision_config(json, tower.shapes());
  text::PixelRule rule = text::pixel_rule(nlohmann::json::parse(file.metadata().at("processor")));

  text::Patches patches(int i) const {
    return text::patches_of(file.tensor(std::to_string(i) + ".image").permute({2, 0, 1}).to(at::kDouble), config, rule);
  }
  /// What the reference made of a picture [K, R, C, E].
  at::Tensor seen(int i) const {
    const auto name = std::to_string(i);
    std::vector<at::Tensor> all{file.tensor(name + ".seen")};
    for (int k = 0; k < 3; ++k) all.push_back(file.tensor(name + ".added." + std::to_string(k)));
    auto [pixels, rows, columns] = patches(i);
    return at::stack(all).unflatten(1, {rows, columns});
  }
};

/// Fills a module in fp32.
void load_wide(nn::Module& module, const io::TensorSource& source) {
  for (auto& [path, slot] : module.parameters()) *slot = source.tensor(path).to(test::device(), at::kFloat);
}

int64_t count_of(nn::Module&& module) {
  int64_t count = 0;
  for (auto& [path, slot] : module.parameters()) count += slot->numel();
  return count;
}

const at::TensorOptions kMeta = at::TensorOptions().device(at::kMeta);

}  // namespace

TEST(Qwen3VlVisionParity, PicturesAreScaledToTheBytesOfPillow) {
  Golden golden;
  EXPECT_EQ(golden.rule.mean, (std::array<double, 3>{0.5, 0.5, 0.5}));
  EXPECT_EQ(golden.rule.deviation, (std::array<double, 3>{0.5, 0.5, 0.4}));
  auto mean = at::tensor(golden.rule.mean).view({3, 1}), deviation = at::tensor(golden.rule.deviation).view({3, 1});
  for (int i = 0; i < 3; ++i) {
    auto pixels = golden.patches(i).pixels_NF;
    auto levels = ((pixels.view({-1, 3, 2, 4 * 4}).select(2, 0).to(at::kDouble) * deviation + mean) * 255).round().flatten(1);
    EXPECT_TRUE(at::equal(levels.to(at::kByte), golden.file.tensor(std::to_string(i) + ".levels"))) << i;
    EXPECT_LE(relative_error(test::digest(pixels), golden.file.tensor(std::to_string(i) + ".pixels")), tolerance(1e-6)) << i;
  }
}

TEST(Qwen3VlVisionParity, TokensOfPicturesAndWhatIsAddedBehindLayers) {
  at::NoGradGuard no_grad;
  Golden golden;
  EXPECT_EQ(golden.config.deepstack, (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(golden.config.side, 6);
  text::Qwen3VlVision tower(golden.config, kMeta);
  EXPECT_EQ(tower.parameters().size(), golden.tower.names().size());
  load_wide(tower, golden.tower);
  for (int i = 0; i < 3; ++i) {
    auto found = tower.forward(golden.patches(i)), expected = golden.seen(i);
    ASSERT_EQ(found.sizes(), expected.sizes());
    for (int64_t k = 0; k < 4; ++k) EXPECT_LE(relative_error(found[k], expected[k]), tolerance(1e-5)) << i << " " << k;
  }
}

TEST(Qwen3VlVisionParity, StatesOfATextWithOnePictureAndWithTwo) {
  at::NoGradGuard no_grad;
  Golden golden;
  auto source = golden.file.below("w.language_model.");
  text::QwenEncoder encoder(text::qwen3_vl_config(golden.json, source.shapes()), kMeta);
  load_wide(encoder, source);
  for (const auto& [name, count] : std::map<std::string, int>{{"one", 1}, {"two", 2}}) {
    text::QwenReading reading{.after = {0, 1, 2, 3, 4}};
    int64_t first = 3;
    for (int i = 0; i < count; ++i) {
      reading.pictures.push_back(text::seen_at(first, on_device(golden.seen(i))));
      first += golden.patches(i).rows * golden.patches(i).columns + 2;
    }
    auto ids = on_device(golden.file.tensor(name + ".ids"));
    auto states = encoder.forward(ids, reading);
    auto expected = [&](size_t k) { return golden.file.tensor(name + ".state." + std::to_string(k)); };
    for (size_t k = 0; k < 5; ++k) EXPECT_LE(relative_error(states[k], expected(k)), tolerance(1e-5)) << name << " " << k;
    reading.after = {2};  // layers behind it are not run
    EXPECT_TRUE(at::equal(encoder.forward(ids, reading).front(), states[2])) << name;
    for (auto& picture : reading.pictures) picture.added_RCE.clear();
    EXPECT_GT(relative_error(encoder.forward(ids, reading).front(), expected(2)), 0.01) << name << ": what is added matters";
  }
}

TEST(Qwen3VlVision, OfTensorsAloneIsAPublishedSizeOrAnError) {
  for (const auto& [published, millions] : std::vector<std::pair<text::Qwen3VlVisionConfig, double>>{
           {text::qwen3_vl_2b_vision(), 407}, {text::Qwen3VlVisionConfig(), 415}, {text::qwen3_vl_8b_vision(), 576}}) {
    text::Qwen3VlVision tower(published, kMeta);
    io::Shapes shapes;
    int64_t count = 0;
    for (auto& [path, slot] : tower.parameters()) {
      shapes[path] = slot->sizes().vec();
      count += slot->numel();
    }
    EXPECT_NEAR(static_cast<double>(count) / 1e6, millions, 0.6);
    auto found = text::qwen3_vl_vision_config(nullptr, shapes);
    EXPECT_EQ(found.deepstack, published.deepstack);
    EXPECT_EQ(found.side, 48);
    EXPECT_EQ(found.cell(), 32);
    EXPECT_EQ(found.hidden, published.hidden);
    EXPECT_EQ(found.out_width, published.out_width);
  }
  EXPECT_NE(test::error_of([&] { text::qwen3_vl_vision_config(nullptr, Golden().tower.shapes()); }).find("deepstack_visual_indexes"),
            std::string::npos);
}

TEST(Qwen3VlVision, PublishedTextPartsHaveThePublishedParameterCounts) {
  EXPECT_NEAR(static_cast<double>(count_of(text::QwenEncoder(text::qwen3_vl_2b(), kMeta))) / 1e6, 1721, 0.6);
  EXPECT_NEAR(static_cast<double>(count_of(text::QwenEncoder(text::qwen3_vl_4b(), kMeta))) / 1e6, 4022, 0.6);
  EXPECT_NEAR(static_cast<double>(count_of(text::QwenEncoder(text::qwen3_vl_8b(), kMeta))) / 1e6, 7568, 0.6);
}

TEST(Qwen3VlVision, ThePublishedRuleOfPixels) {
  text::Qwen3VlVisionConfig config;
  auto shown = [&](int64_t height, int64_t width) { return text::shown_size(height, width, config, text::qwen3_vl_pixels()); };
  using Sides = std::pair<int64_t, int64_t>;
  // transformers' smart_resize with a factor of 32.
  EXPECT_EQ(shown(384, 384), Sides(384, 384));
  EXPECT_EQ(shown(313, 471), Sides(320, 480));
  EXPECT_EQ(shown(100, 150), Sides(224, 320));
  EXPECT_NE(text::settings_of(text::qwen3_vl_pixels()), text::settings_of({.least = 65536, .most = 16777216}));
}

TEST(Qwen3VlVision, DamagedNumbersAreErrors) {
  Golden golden;
  auto with = [&](const std::string& key, const nlohmann::json& value) {
    auto json = golden.json;
    json["vision_config"][key] = value;
    return test::error_of([&] { text::qwen3_vl_vision_config(json, golden.tower.shapes()); });
  };
  EXPECT_NE(with("num_heads", 5).find("5 heads"), std::string::npos);
  for (const nlohmann::json& indexes : {nlohmann::json{0, 1}, nlohmann::json{0, 1, 4}, nlohmann::json{0, 1, 1}, nlohmann::json{3, 1, 0}})
    EXPECT_NE(with("deepstack_visual_indexes", indexes).find("deepstack_visual_indexes"), std::string::npos) << indexes;
  auto of_tower = [&](const nlohmann::json& vision) {
    auto json = golden.json;
    json["vision_config"] = vision;
    text::qwen3_vl_vision_config(json, golden.tower.shapes());
  };
  test::expect_compared(golden.json.at("vision_config"),
                        {"hidden_size", "intermediate_size", "depth", "patch_size", "temporal_patch_size", "out_hidden_size", "in_channels",
                         "spatial_merge_size", "num_position_embeddings"},
                        of_tower);
  EXPECT_NE(test::error_of([&] { text::pixel_rule({{"image_std", {0.5, 0, 0.5}}}); }).find("image_std"), std::string::npos);
  EXPECT_NE(test::error_of([&] { text::pixel_rule({{"image_mean", {0.5, 0.5}}}); }).find("image_mean"), std::string::npos);
}

}  // namespace burnish::qwen3_vl_vision_test
