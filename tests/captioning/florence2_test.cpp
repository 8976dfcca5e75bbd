// Parity: what a small Florence-2 sees and writes, with transformers (tests/golden/make_florence2.py).
#include "captioning/florence2.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "captioning/regions.h"
#include "data/image.h"
#include "io/safetensors.h"
#include "tests/captioning/opened.h"
#include "tests/golden.h"
#include "tests/scratch.h"

namespace burnish::captioning {

namespace {

struct OpenedFlorence : Opened<Florence2> {
  explicit OpenedFlorence(const std::string& folder) : Opened(folder.starts_with('/') ? folder : "florence2/" + folder) {}
};

at::Tensor shown(const Florence2& model) {
  std::vector<at::Tensor> pictures;
  for (const char* name : {"a", "b", "c"})
    pictures.push_back(model.shown(data::decode_image(test::golden_path("florence2/pictures/" + std::string(name) + ".png"))));
  return at::stack(pictures);
}

nlohmann::json golden_json() { return nlohmann::json::parse(std::ifstream(test::golden_path("florence2/florence2.json"))); }

}  // namespace

TEST(Florence2, SeesAndReadsWhatTransformersDo) {
  const auto golden = test::golden("florence2/florence2.safetensors");
  auto of = [&](const std::string& name) { return test::on_device(golden.tensor(name)); };
  for (const char* folder : {"model", "original"}) {
    OpenedFlorence opened(folder);
    at::NoGradGuard no_grad;
    auto& model = opened.model;
    const auto image = shown(model);
    EXPECT_LT(test::relative_error(image, golden.tensor("in.pixels")), 1e-6) << folder;
    EXPECT_EQ(nlohmann::json(model.tokenizer().encode(sentence_of("<CAPTION>"))).size(), golden.tensor("in.prompt").numel());
    const auto tokens = model.see(image);
    EXPECT_LT(test::relative_error(tokens, of("out.tokens")), 1e-5) << folder;
    const auto states = model.read(tokens, "<CAPTION>");
    EXPECT_LT(test::relative_error(states, of("out.encoder")), 1e-5) << folder;
    auto& bart = static_cast<Bart&>(model.components().module("language_model"));
    auto past = bart.begin(states);
    const auto ids = of("in.decoder"), logits = of("out.logits");
    for (int64_t i = 0; i < ids.size(1); ++i)
      EXPECT_LT(test::relative_error(bart.scores(ids.select(1, i), past), logits.select(1, i)), 1e-5) << folder << " token " << i;
  }
}

TEST(Florence2, EveryTokenIsTheOneOfTransformers) {
  const auto golden = golden_json();
  ASSERT_GE(golden["cases"].size(), 20);
  for (const char* folder : {"model", "original"}) {
    OpenedFlorence opened(folder);
    auto& model = opened.model;
    const auto tokens = model.see(shown(model));
    for (const auto& row : golden["cases"]) {
      const BeamRule rule{.num_beams = row["beams"], .max_new_tokens = row["max_new_tokens"]};
      const auto texts = model.answer(tokens, row["prompt"], rule);
      ASSERT_TRUE(texts);
      for (size_t i = 0; i < texts->size(); ++i) {
        EXPECT_EQ(nlohmann::json(texts->at(i).ids), row["ids"][i]) << folder << " " << row.dump();
        // One picture alone is answered as among others.
        const auto alone = model.answer(tokens.narrow(0, static_cast<int64_t>(i), 1), row["prompt"], rule);
        EXPECT_EQ(alone->at(0).ids, texts->at(i).ids);
        EXPECT_EQ(texts->at(i).is_cut, row["max_new_tokens"] == 6);
      }
    }
  }
}

TEST(Florence2, BoxesAreThoseOfTransformersProcessor) {
  const auto golden = golden_json();
  OpenedFlorence opened("model");
  const std::array<std::pair<int, int>, 3> sides{{{60, 48}, {40, 56}, {64, 64}}};
  size_t num_boxes = 0;
  for (const auto& row : golden["cases"]) {
    const auto prompt = row["prompt"].get<std::string>();
    if (prompt != "<OD>" && prompt != "<DENSE_REGION_CAPTION>") continue;
    for (size_t i = 0; i < sides.size(); ++i) {
      const auto regions = regions_of_marks(opened.model.tokenizer().decode_marked(row["ids"][i]));
      const auto& read = row["read"][i];
      ASSERT_EQ(regions.size(), read["labels"].size());
      for (size_t k = 0; k < regions.size(); ++k, ++num_boxes) {
        const auto& box = regions[k].box;
        const auto [width, height] = sides[i];
        EXPECT_EQ(read["labels"][k], regions[k].label);
        EXPECT_EQ(read["bboxes"][k], (std::vector<int>{static_cast<int>(box.left * width), static_cast<int>(box.top * height),
                                                       static_cast<int>(box.right * width), static_cast<int>(box.bottom * height)}));
      }
    }
  }
  EXPECT_GT(num_boxes, 10);
}

TEST(Florence2, TextsAreTokensAsInTransformers) {
  for (const char* folder : {"model", "original"}) {
    OpenedFlorence opened(folder);
    const auto golden = golden_json();
    for (const auto& [text, ids] : golden["strings"].items()) {
      auto given = opened.model.tokenizer().encode(text);
      given.erase(given.begin());
      given.pop_back();
      EXPECT_EQ(nlohmann::json(given), ids) << folder << " '" << text << "'";
    }
    const auto ids = opened.model.tokenizer().encode("red<loc_5><loc_999>");
    EXPECT_EQ(opened.model.tokenizer().decode(ids), "red");
    EXPECT_EQ(opened.model.tokenizer().decode_marked(ids), "red<loc_5><loc_999>");
  }
}

TEST(Florence2, ManyChannelsAreSeenInBf16AsInFp32) {
  const DavitConfig config{.stages = {{.width = 512, .hidden = 16, .kernel = 7, .stride = 4, .padding = 3, .norm_first = false}},
                           .window = 3,
                           .num_places = 10,
                           .projected = 8};
  DavitEye fine(config, at::kFloat), coarse(config, at::kBFloat16);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
  auto rounded = coarse.parameters();
  for (auto& [path, slot] : fine.parameters()) {
    const auto scale = slot->dim() > 1 ? 1 / std::sqrt(static_cast<double>(slot->numel() / slot->size(0))) : 1.0;
    *slot = (at::randn(slot->sizes(), generator) * scale).to(at::kBFloat16).to(at::kFloat);
    *rounded.at(path) = slot->to(at::kBFloat16);
  }
  at::NoGradGuard no_grad;
  const auto image = at::randn({2, 3, 20, 20}, generator).to(at::kBFloat16);
  EXPECT_LT(test::relative_error(coarse.forward(image).to(at::kFloat), fine.forward(image.to(at::kFloat))), 0.03);
}

TEST(Florence2, ATaskIsASentence) {
  EXPECT_EQ(sentence_of("<CAPTION>"), "What does the image describe?");
  EXPECT_EQ(sentence_of("<CAPTION_TO_PHRASE_GROUNDING> a cat"), "Locate the phrases in the caption: a cat");
  EXPECT_EQ(sentence_of("<GENERATE_TAGS>"), "<GENERATE_TAGS>");
  EXPECT_EQ(sentence_of("What is it?"), "What is it?");
}

TEST(Florence2, NamesWhatDoesNotFit) {
  test::Scratch scratch;
  auto said = [&](const std::string& file, const nlohmann::json& change) {
    const auto folder = scratch / "changed";
    std::filesystem::remove_all(folder);
    std::filesystem::copy(test::golden_path("florence2/model"), folder);
    auto json = nlohmann::json::parse(std::ifstream(folder / file));
    json.merge_patch(change);
    std::ofstream(folder / file) << json;
    try {
      OpenedFlorence opened(folder.string());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(said("preprocessor_config.json", {{"size", {{"height", 640}, {"width", 640}}}}), ::testing::HasSubstr("places along a side"));
  EXPECT_THAT(said("config.json", {{"vision_config", {{"num_heads", {3, 2, 4}}}}}), ::testing::HasSubstr("that divide the width"));
  EXPECT_THAT(said("config.json", {{"vision_config", {{"patch_stride", {4, 2}}}}}), ::testing::HasSubstr("its weights have 3 stages"));
  EXPECT_THAT(said("config.json", {{"text_config", {{"decoder_attention_heads", 5}}}}),
              ::testing::HasSubstr("heads that divide the width"));
}

}  // namespace burnish::captioning
