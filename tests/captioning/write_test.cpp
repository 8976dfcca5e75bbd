// Parity: what a model writes, token by token, with transformers' generate (tests/golden/make_captions.py).
#include "captioning/write.h"

#include <filesystem>
#include <fstream>

#include "data/image.h"
#include "models/open_files.h"
#include "tests/golden.h"

namespace burnish::captioning {

namespace {

/// A model of the golden files, loaded in fp32.
struct Opened {
  explicit Opened(const std::string& folder)
      : files(models::open_files({.model = {test::golden_path(folder)}, .model_paths = {}, .model_id_with_origin_paths = {}},
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

}  // namespace burnish::captioning
