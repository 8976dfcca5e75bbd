// Parity: what CLIPSeg finds in pictures, and what masks become of it, with transformers and OneTrainer's steps
// (tests/golden/make_masks.py).
#include "masking/clip_seg.h"

#include <gmock/gmock.h>

#include <fstream>

#include "data/image.h"
#include "data/row_scaler.h"
#include "io/json.h"
#include "masking/mask.h"
#include "models/files/open_files.h"
#include "tests/golden.h"
#include "tests/scratch.h"

namespace burnish::masking {

namespace {

/// A model of the golden files, loaded in fp32.
struct Opened {
  explicit Opened(const std::string& folder)
      : files(models::open_files({.model = {folder}, .model_paths = {}, .model_id_with_origin_paths = {}},
                                 [](const std::string&) { return std::nullopt; })),
        options{.dtype = at::kFloat, .device = test::device()},
        model(files, options, "") {
    for (const auto& component : model.components().list()) model.components().load(component.name);
  }
  models::ModelFiles files;
  models::ModelOptions options;
  ClipSeg model;
};

at::Tensor picture(const std::string& name) { return data::decode_image(test::golden_path("captions/pictures/" + name + ".png")); }

const std::string kFolder = test::golden_path("masks/clip_seg");

nlohmann::json metadata(const char* key) { return nlohmann::json::parse(test::golden("masks/masks.safetensors").metadata().at(key)); }

/// A copy of the model with another config.json or preprocessor_config.json.
std::string changed(const test::Scratch& scratch, const char* file, const nlohmann::json& change) {
  std::filesystem::copy(kFolder, scratch / "model");
  auto json = io::read_json(scratch / "model" / file);
  json.update(change, /*merge_objects=*/true);
  std::ofstream(scratch / "model" / file) << json;
  return (scratch / "model").string();
}

std::string refusal(const char* file, const nlohmann::json& change) {
  test::Scratch scratch;
  return test::error_of([&] { Opened opened(changed(scratch, file, change)); });
}

}  // namespace

TEST(ClipSeg, ScoresAreThoseOfTransformers) {
  Opened opened(kFolder);
  const auto golden = test::golden("masks/masks.safetensors");
  const auto texts = metadata("texts");
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    const auto sought = texts[i].get<std::vector<std::string>>();
    const auto scores = opened.model.scores(picture(name), opened.model.embed(sought));
    const auto expected = golden.tensor(name + "." + std::to_string(sought.size()));
    ASSERT_EQ(scores.sizes(), expected.sizes());
    EXPECT_LT(test::relative_error(scores, expected), 1e-5) << name;
  }
}

TEST(ClipSeg, ALongTextIsCutAndKeepsItsEnd) {
  Opened opened(kFolder);
  std::string text = "a";
  for (int i = 0; i < 40; ++i) text += " cat";
  EXPECT_TRUE(at::equal(opened.model.embed({text}), opened.model.embed({text + " and a dog"})));
}

TEST(ClipSeg, PicturesAreStretchedAsPillowDoes) {
  const auto expected = test::golden("masks/masks.safetensors").tensor("shrunk");
  const data::Size size{expected.size(0), expected.size(1)};
  const auto pixels = picture("b").contiguous();
  data::RowScaler scaler({pixels.size(0), pixels.size(1)}, 3, size, {.size = size});
  for (const auto& row : pixels.unbind()) scaler.take(row.const_data_ptr<uint8_t>());
  EXPECT_TRUE(at::equal(scaler.scaled_HWC(), expected));
}

TEST(ClipSeg, RefusesWhatDoesNotFit) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal("config.json", {{"extract_layers", {0, 1, 9}}}), HasSubstr("reads layer 9 of a tower"));
  EXPECT_THAT(refusal("config.json", {{"extract_layers", {0, 1}}}), HasSubstr("extract_layers = [0,1]"));
  EXPECT_THAT(refusal("config.json", {{"decoder_num_attention_heads", 3}}), HasSubstr("does not divide into 3 heads"));
  EXPECT_THAT(refusal("config.json", {{"conditional_layer", 3}}), HasSubstr("conditional_layer = 3"));
  EXPECT_THAT(refusal("preprocessor_config.json", {{"size", {{"height", 90}}}}), HasSubstr("a square of whole patches of 16"));
  EXPECT_THAT(test::error_of([] { Opened opened(test::golden_path("captions/qwen3_vl")); }), HasSubstr("there is no CLIPSeg in"));
}

TEST(Decoder, InOneStepEqualsTransformers) {
  const auto golden = test::golden("masks/plain.safetensors");
  const auto weights = golden.below("model.");
  Decoder decoder(decoder_config(nlohmann::json::parse(golden.metadata().at("config")), weights.shapes()), at::TensorOptions());
  test::load_weights(decoder, weights, {});
  std::vector<at::Tensor> states;
  for (int i = 0; i < 3; ++i) states.push_back(test::on_device(golden.tensor("states." + std::to_string(i))));
  at::NoGradGuard no_grad;
  const auto logits = decoder.forward(states, test::on_device(golden.tensor("texts")));
  EXPECT_LT(test::relative_error(logits, golden.tensor("logits")), 1e-5);
}

TEST(Mask, IsWhatOneTrainersStepsMakeOfScores) {
  const auto golden = test::golden("masks/masks.safetensors");
  const auto rule = metadata("rule");
  for (const auto& [name, scores] : {std::pair{"a", "a.1"}, {"b", "b.2"}}) {
    const auto expected = golden.tensor(std::string(scores) + ".mask").unsqueeze(-1);
    const auto mask = mask_of(golden.tensor(scores), {expected.size(0), expected.size(1)},
                              {rule[name].get<double>(), rule["smooth_pixels"], rule["expand_pixels"]});
    ASSERT_EQ(mask.sizes(), expected.sizes());
    // A pixel at the threshold may fall to either side, and the mask grows by a pixel around it.
    EXPECT_LE((mask != expected).sum().item<int64_t>(), 9) << name;
    EXPECT_GT((expected == 0).sum().item<int64_t>(), 100) << "the case says nothing";
  }
}

TEST(Mask, IsJoinedToTheOneThatIsThere) {
  const auto was = at::tensor({0, 100, 200, 255}, at::kByte).view({2, 2, 1}),
             fresh = at::tensor({255, 0, 255, 0}, at::kByte).view({2, 2, 1});
  auto values = [](const at::Tensor& mask) { return std::vector<int>(mask.data_ptr<uint8_t>(), mask.data_ptr<uint8_t>() + mask.numel()); };
  using ::testing::ElementsAre;
  EXPECT_THAT(values(joined(was, fresh, Join::replace)), ElementsAre(255, 0, 255, 0));
  EXPECT_THAT(values(joined(was, fresh, Join::add)), ElementsAre(255, 100, 255, 255));
  EXPECT_THAT(values(joined(was, fresh, Join::subtract)), ElementsAre(0, 100, 0, 255));
  EXPECT_THAT(values(joined({}, fresh, Join::add)), ElementsAre(255, 0, 255, 0));
  EXPECT_THAT(values(joined({}, fresh, Join::subtract)), ElementsAre(0, 255, 0, 255));
}

}  // namespace burnish::masking
