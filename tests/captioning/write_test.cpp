// Parity: what a model writes, token by token, with transformers' generate (tests/golden/make_captions.py,
// make_joy_caption.py).
#include "captioning/write.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "data/image.h"
#include "io/safetensors.h"
#include "tests/captioning/opened.h"
#include "tests/golden.h"
#include "tests/scratch.h"

namespace burnish::captioning {

namespace {

Shown picture(const std::string& name) { return {data::decode_image(test::golden_path("captions/" + name)).unsqueeze(0)}; }

Shown clip() {
  Shown shown;
  std::vector<at::Tensor> frames;
  for (int i = 0; i < 4; ++i) {
    frames.push_back(data::decode_image(test::golden_path("captions/clip/" + std::to_string(i) + ".png")));
    shown.times.push_back(0.5 * i);
  }
  shown.frames_FHW3 = at::stack(frames);
  return shown;
}

const std::string kPrompt = "Describe this image.";

std::vector<Request> requests_of(LanguageModel& model, const nlohmann::json& row) {
  std::vector<Request> requests;
  const auto prompt = row["prompt"].get<std::string>();
  if (row.contains("clip")) return {{model.ask(clip(), prompt, {.frame_pixels = 56 * 112})}};
  for (const auto& name : row["pictures"]) requests.push_back({model.ask(picture(name.get<std::string>()), prompt, {})});
  return requests;
}

WritingRule rule_of(const nlohmann::json& row) {
  return {.max_new_tokens = row["max_new_tokens"], .tokens = {.repetition_penalty = row["penalty"]}};
}

nlohmann::json cases() {
  auto all = nlohmann::json::parse(std::ifstream(test::golden_path("captions/captions.json")));
  all.update(nlohmann::json::parse(std::ifstream(test::golden_path("joy_caption/captions.json"))));
  return all;
}

}  // namespace

TEST(Write, EveryTokenIsTheOneOfTransformers) {
  const auto all = cases();
  for (const auto& [folder, rows] : all.items()) {
    Opened<LanguageModel> opened(folder);
    for (const auto& row : rows) {
      const auto written = write(opened.model, requests_of(opened.model, row), rule_of(row));
      ASSERT_TRUE(written);
      for (size_t i = 0; i < written->size(); ++i)
        EXPECT_EQ(nlohmann::json(written->at(i).ids), row["ids"][i]) << folder << " " << row.dump();
    }
  }
}

TEST(Write, ATextEndsBeforeATokenThatStopsAndOthersGoOn) {
  Opened<LanguageModel> opened("captions/qwen3_vl");
  const WritingRule rule{.max_new_tokens = 12, .tokens = {.repetition_penalty = 1.3}};
  const std::vector<Request> requests{{opened.model.ask(picture("pictures/a.png"), kPrompt, {})},
                                      {opened.model.ask(picture("pictures/b.png"), kPrompt, {})}};
  const auto whole = *write(opened.model, requests, rule);
  EXPECT_TRUE(whole[0].is_cut && whole[1].is_cut);
  auto place = std::ranges::find_if(whole[0].ids, [&](int64_t id) { return std::ranges::count(whole[1].ids, id) == 0; });
  ASSERT_NE(place, whole[0].ids.end()) << "the case says nothing";
  const auto stop = *place;
  test::Scratch scratch;
  std::filesystem::copy(test::golden_path("captions/qwen3_vl"), scratch / "model");
  std::ofstream(scratch / "model/generation_config.json") << nlohmann::json({{"eos_token_id", {stop}}});
  Opened<LanguageModel> ending((scratch / "model").string());
  const auto stopped = *write(ending.model, requests, rule);
  EXPECT_EQ(stopped[0].ids, (std::vector<int64_t>(whole[0].ids.begin(), place)));
  EXPECT_FALSE(stopped[0].is_cut);
  EXPECT_EQ(stopped[1].ids, whole[1].ids);
  int asked = 0;
  EXPECT_FALSE(write(opened.model, requests, rule, [&] { return ++asked < 3; }));
  EXPECT_EQ(asked, 3);
}

TEST(Write, WhatIsDrawnDependsOnAPicturesNameAndNotOnItsBatch) {
  Opened<LanguageModel> opened("captions/qwen3_vl");
  const WritingRule rule{.max_new_tokens = 8, .tokens = {.temperature = 2}, .seed = 5};
  auto asked = [&](const std::string& name) { return opened.model.ask(picture("pictures/" + name), kPrompt, {}); };
  const Request a{asked("a.png"), 11}, b{asked("b.png"), 12}, c{asked("a.png"), 13};
  const auto together = *write(opened.model, {b, a, c}, rule);
  EXPECT_EQ(together[1].ids, write(opened.model, {a}, rule)->at(0).ids);
  EXPECT_NE(together[1].ids, together[2].ids);
}

TEST(LanguageModel, BoxesCountInWhatAModelCountsIn) {
  // transformers' smart_resize shows Qwen2.5-VL 60 by 44 pixels as 56 by 56, and 40 by 84 as 56 by 84.
  Opened<LanguageModel> qwen25("qwen_edit_pipeline/model");
  const auto a = qwen25.model.box_scale(qwen25.model.ask(picture("pictures/a.png"), kPrompt, {}));
  const auto b = qwen25.model.box_scale(qwen25.model.ask(picture("pictures/b.png"), kPrompt, {}));
  EXPECT_EQ(std::pair(a.height, a.width), std::pair(56.0, 56.0));
  EXPECT_EQ(std::pair(b.height, b.width), std::pair(84.0, 56.0));
  Opened<LanguageModel> qwen3("captions/qwen3_vl");
  const auto third = qwen3.model.box_scale(qwen3.model.ask(picture("pictures/b.png"), kPrompt, {}));
  EXPECT_EQ(std::pair(third.height, third.width), std::pair(1000.0, 1000.0));
}

TEST(LanguageModel, NamesWhatIsMissing) {
  test::Scratch scratch;
  const auto folder = scratch / "model";
  std::filesystem::copy(test::golden_path("captions/qwen3_vl"), folder);
  auto source = io::TensorSource::open({(folder / "model.safetensors").string()});
  auto without = [&](const std::string& part) {
    io::NamedTensors kept;
    for (const auto& name : source.names()) {
      if (name.find(part) == name.npos) kept.emplace_back(name, source.tensor(name).clone());
    }
    std::filesystem::create_directory(scratch / part);
    std::filesystem::copy(folder, scratch / part,
                          std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
    io::save_safetensors(scratch / part / "model.safetensors", kept);
    try {
      Opened<LanguageModel> opened((scratch / part).string());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(without("lm_head"), ::testing::HasSubstr("has no lm_head.weight"));
  EXPECT_THAT(without("visual"), ::testing::HasSubstr("has no vision tower"));
  EXPECT_THAT(without("language_model"), ::testing::HasSubstr("there is no Qwen2.5-VL"));
}

}  // namespace burnish::captioning
