// Parity: where CLIP places pictures and texts, with transformers in fp64 (tests/golden/make_likeness.py).
#include "judging/likeness.h"

#include <gmock/gmock.h>

#include <fstream>

#include "io/json.h"
#include "judging/dino.h"
#include "judging/dino3.h"
#include "judging/siglip.h"
#include "models/files/open_files.h"
#include "tests/golden.h"
#include "tests/scratch.h"

namespace burnish::judging {

namespace {

template <class Model = Likeness>
struct Opened {
  explicit Opened(const std::string& folder)
      : files(models::open_files({.model = {folder}, .model_paths = {}, .model_id_with_origin_paths = {}},
                                 [](const std::string&) { return std::nullopt; })),
        options{.dtype = at::kFloat, .device = test::device()},
        model(files, options) {
    for (const auto& component : model.components().list()) model.components().load(component.name);
  }
  models::ModelFiles files;
  models::ModelOptions options;
  Model model;
};

}  // namespace

TEST(Likeness, PicturesAndTextsLieWhereTransformersPlacesThem) {
  Opened<> opened(test::golden_path("likeness/clip"));
  const auto golden = test::golden("likeness/likeness.safetensors");
  std::vector<at::Tensor> shown;
  for (const char* name : {"a", "b"}) {
    shown.push_back(opened.model.shown(golden.tensor(std::string("levels.") + name)));
    EXPECT_LT((shown.back() - golden.tensor(std::string("pixels.") + name)).abs().max().item<double>(), 1e-5) << name;
  }
  const auto pictures = opened.model.of_pictures(at::stack(shown));
  EXPECT_LT((pictures[0] - golden.tensor("a")).abs().max().item<double>(), 1e-5);
  EXPECT_LT((pictures[1] - golden.tensor("b")).abs().max().item<double>(), 1e-5);
  const auto texts = opened.model.of_texts(nlohmann::json::parse(golden.metadata().at("texts")).get<std::vector<std::string>>());
  EXPECT_LT((texts - golden.tensor("texts")).abs().max().item<double>(), 1e-5);
}

template <class Model>
void expect_pictures_where_transformers_places_them(const std::string& model) {
  Opened<Model> opened(test::golden_path("likeness/" + model));
  const auto golden = test::golden("likeness/likeness.safetensors");
  for (const std::string name : {"a", "b"}) {
    const auto shown = opened.model.shown(golden.tensor("levels." + name));
    EXPECT_LT((shown - golden.tensor(model + ".pixels." + name)).abs().max().template item<double>(), 1e-5) << name;
    const auto seen = opened.model.of_pictures(shown.unsqueeze(0))[0];
    EXPECT_LT((seen - golden.tensor(model + "." + name)).abs().max().template item<double>(), 1e-5) << name;
  }
}

TEST(Dino, PicturesLieWhereTransformersPlacesThem) { expect_pictures_where_transformers_places_them<Dino>("dino"); }
TEST(Dino3, PicturesLieWhereTransformersPlacesThem) {
  expect_pictures_where_transformers_places_them<Dino3>("dino3");
  expect_pictures_where_transformers_places_them<Dino3>("dino3_gated");
}
TEST(Siglip, PicturesLieWhereTransformersPlacesThem) { expect_pictures_where_transformers_places_them<Siglip>("siglip"); }

TEST(Siglip, IsRefusedWhereItIsNoneOrIsShownAnotherSize) {
  using ::testing::HasSubstr;
  EXPECT_THAT(test::error_of([] { Opened<Siglip> opened(test::golden_path("likeness/dino")); }), HasSubstr("there is no SigLIP in"));
  test::Scratch scratch;
  std::filesystem::copy(test::golden_path("likeness/siglip"), scratch / "model");
  auto json = io::read_json(scratch / "model/preprocessor_config.json");
  json["size"]["height"] = 40;
  std::ofstream(scratch / "model/preprocessor_config.json") << json;
  EXPECT_THAT(test::error_of([&] { Opened<Siglip> opened((scratch / "model").string()); }),
              HasSubstr("pictures are scaled to 40 pixels, and 32 were expected"));
}

TEST(Dino, IsRefusedWhereItIsNoneOrIsShownNoWholePatches) {
  using ::testing::HasSubstr;
  EXPECT_THAT(test::error_of([] { Opened<Dino> opened(test::golden_path("likeness/clip")); }), HasSubstr("there is no DINOv2 in"));
  test::Scratch scratch;
  std::filesystem::copy(test::golden_path("likeness/dino"), scratch / "model");
  auto json = io::read_json(scratch / "model/preprocessor_config.json");
  json["crop_size"]["height"] = 25;
  std::ofstream(scratch / "model/preprocessor_config.json") << json;
  EXPECT_THAT(test::error_of([&] { Opened<Dino> opened((scratch / "model").string()); }), HasSubstr("a square of whole patches of 8"));
}

TEST(Dino3, IsToldFromDinoV2AndRefusedWhereItsMlpsAreOthers) {
  using ::testing::HasSubstr;
  EXPECT_THAT(test::error_of([] { Opened<Dino3> opened(test::golden_path("likeness/dino")); }), HasSubstr("there is no DINOv3 in"));
  EXPECT_THAT(test::error_of([] { Opened<Dino> opened(test::golden_path("likeness/dino3")); }), HasSubstr("there is no DINOv2 in"));
  test::Scratch scratch;
  std::filesystem::copy(test::golden_path("likeness/dino3"), scratch / "model");
  auto json = io::read_json(scratch / "model/config.json");
  json["hidden_act"] = "relu";
  std::ofstream(scratch / "model/config.json") << json;
  EXPECT_THAT(test::error_of([&] { Opened<Dino3> opened((scratch / "model").string()); }), HasSubstr("hidden_act = relu, and gelu was"));
}

TEST(Likeness, IsOfAWholeClipAlone) {
  using ::testing::HasSubstr;
  EXPECT_THAT(test::error_of([] { Opened<> opened(test::golden_path("masks/clip_seg")); }), HasSubstr("there is no whole CLIP"));
  EXPECT_THAT(test::error_of([] { Opened<> opened(test::golden_path("taggers/vit")); }), HasSubstr("there is no whole CLIP"));
}

}  // namespace burnish::judging
