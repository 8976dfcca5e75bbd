// Parity: what a model writes, token by token, with transformers' generate (tests/golden/make_captions.py).
#include "captioning/write.h"

#include <filesystem>
#include <fstream>

#include "data/image.h"
#include "io/safetensors.h"
#include "models/open_files.h"
#include "tests/golden.h"
#include "tests/scratch.h"

namespace burnish::captioning {

namespace {

/// A model of the golden files, loaded in fp32.
struct Opened {
  explicit Opened(const std::string& folder)
      : files(models::open_files(
            {.model = {folder.starts_with('/') ? folder : test::golden_path(folder)}, .model_paths = {}, .model_id_with_origin_paths = {}},
            [](const std::string&) { return std::nullopt; })),
        options{.dtype = at::kFloat, .device = test::device()},
        model(files, options, "") {
    for (const auto& component : model.components().list()) model.components().load(component.name);
  }
  models::ModelFiles files;
  models::ModelOptions options;
  LanguageModel model;
};

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

std::vector<Request> requests_of(const nlohmann::json& row) {
  std::vector<Request> requests;
  if (row.contains("clip")) return {{clip(), 0}};
  for (const auto& name : row["pictures"]) requests.push_back({picture(name.get<std::string>()), requests.size()});
  return requests;
}

WritingRule rule_of(const nlohmann::json& row) {
  return {.prompt = row["prompt"],
          .max_new_tokens = row["max_new_tokens"],
          .tokens = {.repetition_penalty = row["penalty"]},
          .detail = {.frame_pixels = 56 * 112}};
}

nlohmann::json cases() { return nlohmann::json::parse(std::ifstream(test::golden_path("captions/captions.json"))); }

}  // namespace

TEST(Write, EveryTokenIsTheOneOfTransformers) {
  const auto all = cases();
  for (const auto& [folder, rows] : all.items()) {
    Opened opened(folder);
    for (const auto& row : rows) {
      const auto written = write(opened.model, requests_of(row), rule_of(row));
      ASSERT_TRUE(written);
      for (size_t i = 0; i < written->size(); ++i)
        EXPECT_EQ(nlohmann::json(written->at(i).ids), row["ids"][i]) << folder << " " << row.dump();
    }
  }
}

TEST(Write, ATextEndsBeforeATokenThatStopsAndOthersGoOn) {
  Opened opened("captions/qwen3_vl");
  WritingRule rule{.prompt = "Describe this image.", .max_new_tokens = 12, .tokens = {.repetition_penalty = 1.3}};
  const std::vector<Request> requests{{picture("pictures/a.png"), 0}, {picture("pictures/b.png"), 1}};
  const auto whole = *write(opened.model, requests, rule);
  EXPECT_TRUE(whole[0].is_cut && whole[1].is_cut);
  const auto stop = whole[0].ids.at(4);
  ASSERT_EQ(std::ranges::count(whole[1].ids, stop), 0) << "the case says nothing";
  test::Scratch scratch;
  std::filesystem::copy(test::golden_path("captions/qwen3_vl"), scratch / "model");
  std::ofstream(scratch / "model/generation_config.json") << nlohmann::json({{"eos_token_id", {stop}}});
  Opened ending((scratch / "model").string());
  const auto stopped = *write(ending.model, requests, rule);
  EXPECT_EQ(stopped[0].ids, (std::vector<int64_t>(whole[0].ids.begin(), whole[0].ids.begin() + 4)));
  EXPECT_FALSE(stopped[0].is_cut);
  EXPECT_EQ(stopped[1].ids, whole[1].ids);
  int asked = 0;
  EXPECT_FALSE(write(opened.model, requests, rule, [&] { return ++asked < 3; }));
  EXPECT_EQ(asked, 3);
}

TEST(Write, WhatIsDrawnDependsOnAPicturesNameAndNotOnItsBatch) {
  Opened opened("captions/qwen3_vl");
  const WritingRule rule{.prompt = "Describe this image.", .max_new_tokens = 8, .tokens = {.temperature = 2}, .seed = 5};
  const Request a{picture("pictures/a.png"), 11}, b{picture("pictures/b.png"), 12}, c{picture("pictures/a.png"), 13};
  const auto together = *write(opened.model, {b, a, c}, rule);
  EXPECT_EQ(together[1].ids, write(opened.model, {a}, rule)->at(0).ids);
  EXPECT_NE(together[1].ids, together[2].ids);
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
    std::filesystem::copy(folder, scratch / part, std::filesystem::copy_options::overwrite_existing);
    io::save_safetensors(scratch / part / "model.safetensors", kept);
    try {
      Opened opened((scratch / part).string());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(without("lm_head").find("has no lm_head.weight"), std::string::npos);
  EXPECT_NE(without("visual").find("has no vision tower"), std::string::npos);
  EXPECT_NE(without("language_model").find("there is no Qwen2.5-VL"), std::string::npos);
}

}  // namespace burnish::captioning
