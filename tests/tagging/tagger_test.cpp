// Parity: what taggers say of pictures, with timm's networks in fp64 (tests/golden/make_taggers.py).
#include "tagging/tagger.h"

#include <gmock/gmock.h>

#include <fstream>

#include "data/image.h"
#include "io/files.h"
#include "io/json.h"
#include "models/files/open_files.h"
#include "tests/golden.h"
#include "tests/scratch.h"

namespace burnish::tagging {

namespace {

using ::testing::HasSubstr;

/// A tagger of the golden files, loaded.
struct Opened {
  explicit Opened(const std::string& folder)
      : files(models::open_files({.model = {folder}, .model_paths = {}, .model_id_with_origin_paths = {}},
                                 [](const std::string&) { return std::nullopt; })),
        options{.dtype = at::kBFloat16, .device = test::device()},
        model(files, options) {
    for (const auto& component : model.components().list()) model.components().load(component.name);
  }
  models::ModelFiles files;
  models::ModelOptions options;
  Tagger model;
};

std::string folder_of(const std::string& name) { return test::golden_path("taggers/" + name); }
at::Tensor picture(const std::string& name) { return data::decode_image(test::golden_path("captions/pictures/" + name + ".png")); }
nlohmann::json kind(const char* name) { return nlohmann::json::parse(test::golden("taggers/kinds.safetensors").metadata().at(name)); }

/// The sentence that refuses a tagger with another config.json or table.
std::string refusal(const std::string& name, const nlohmann::json& change, const std::string& table = "") {
  test::Scratch scratch;
  std::filesystem::copy(folder_of(name), scratch / "model");
  auto json = io::read_json(scratch / "model/config.json");
  if (!change.is_null()) json.update(change, /*merge_objects=*/true);
  std::ofstream(scratch / "model/config.json") << json;
  if (!table.empty()) std::ofstream(scratch / "model/selected_tags.csv") << table;
  return test::error_of([&] { Opened opened((scratch / "model").string()); });
}

}  // namespace

TEST(Tagger, SaysWhatTimmsNetworksSay) {
  const auto golden = test::golden("taggers/taggers.safetensors");
  for (const char* name : {"eva02", "vit", "swin_v2", "conv_next"}) {
    Opened opened(folder_of(name));
    const auto together = opened.model.likelihoods(at::stack({opened.model.shown(picture("a")), opened.model.shown(picture("b"))}));
    for (int64_t i = 0; i < 2; ++i) {
      const auto file = i == 0 ? "a" : "b";
      const auto expected = at::sigmoid(golden.tensor(std::string(name) + "." + file));
      EXPECT_LT((together[i] - expected).abs().max().item<double>(), 1e-5) << name << " " << file;
      const auto alone = opened.model.likelihoods(opened.model.shown(picture(file)).unsqueeze(0))[0];
      EXPECT_LT((alone - expected).abs().max().item<double>(), 1e-5) << name << " " << file;
    }
  }
}

TEST(Tagger, KnowsTheKindsOfItsNetworks) {
  const auto golden = test::golden("taggers/kinds.safetensors");
  const std::pair<const char*, MakePlan> kinds[] = {
      {"vit_scaled", vision_transformer_plan}, {"vit_pooled", vision_transformer_plan}, {"swin_v2_windows", swin_v2_plan}};
  for (const auto& [name, plan_of] : kinds) {
    const auto weights = golden.below(std::string(name) + "/");
    const auto keys = plan_of == vision_transformer_plan ? vision_transformer_keys() : io::KeyMap();
    const auto plan = plan_of(kind(name), io::shapes_in_our_names(weights, keys));
    const auto network = plan.build(at::TensorOptions().dtype(at::kFloat));
    test::load_weights(*network, weights, keys);
    for (auto& [path, slot] : network->parameters()) *slot = slot->to(at::kFloat);  // the file holds them in bf16
    at::NoGradGuard no_grad;
    const auto logits = network->logits(test::on_device(golden.tensor("picture")).unsqueeze(0))[0];
    EXPECT_LT(test::relative_error(logits, golden.tensor(std::string(name) + ".logits")), 1e-5) << name;
  }
}

TEST(Tagger, IsShownPicturesInTheMiddleOfAWhiteSquareAsTheirAuthorsShowThem) {
  Opened opened(folder_of("vit"));
  const auto golden = test::golden("taggers/taggers.safetensors");
  for (const char* name : {"a", "b"})
    EXPECT_LT((opened.model.shown(picture(name)) - golden.tensor(std::string("pixels.") + name)).abs().max().item<double>(), 1e-6) << name;
  const auto clear = opened.model.shown(data::decode_image(folder_of("clear.png")));
  EXPECT_LT((clear - golden.tensor("pixels.clear")).abs().max().item<double>(), 1e-6);
}

TEST(Tagger, AFileAloneHasItsSettingsBesideIt) {
  Opened opened(folder_of("eva02") + "/model.safetensors");
  EXPECT_EQ(opened.model.side(), 48);
  EXPECT_EQ(opened.model.name(), "EVA-02 tagger");
  EXPECT_EQ(opened.model.usual_threshold(), 0.5);
  EXPECT_EQ(opened.model.tags().at(4).name, "1girl");
}

TEST(Tagger, IsFoundByItsNameAlone) {
  EXPECT_EQ(id_of("wd-eva02-large-tagger-v3"), "SmilingWolf/wd-eva02-large-tagger-v3");
  EXPECT_EQ(id_of("Qwen/Qwen3-VL-4B-Instruct"), "Qwen/Qwen3-VL-4B-Instruct");
}

TEST(Tagger, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal("eva02", {{"model_args", {{"num_heads", 5}}}}), HasSubstr("does not divide into 5 heads"));
  EXPECT_THAT(refusal("eva02", {{"model_args", {{"num_heads", 16}}}}), HasSubstr("a multiple of 4 was expected"));
  EXPECT_THAT(refusal("eva02", {{"model_args", {{"ref_feat_shape", {3, 4}}}}}), HasSubstr("ref_feat_shape = [3,4]"));
  EXPECT_THAT(refusal("vit", {{"model_args", {{"img_size", 96}}}}), HasSubstr("places for 4 by 4 patches of 12"));
  EXPECT_THAT(refusal("vit", {{"model_args", {{"img_size", {48, 60}}}}}), HasSubstr("a square was expected"));
  EXPECT_THAT(refusal("vit", {{"model_args", {{"global_pool", "map"}}}}), HasSubstr("avg and token are known"));
  EXPECT_THAT(refusal("vit", {{"model_args", {{"global_pool", "token"}}}}), HasSubstr("and a class token, which it reads"));
  EXPECT_THAT(refusal("vit", {{"pretrained_cfg", {{"std", {0.5, 0}}}}}), HasSubstr("3 means and 2 deviations"));
  EXPECT_THAT(refusal("swin_v2", {{"model_args", {{"window_size", 5}}}}), HasSubstr("windows of 5"));
  EXPECT_THAT(refusal("conv_next", {{"pretrained_cfg", {{"input_size", {3, 16, 16}}}}}), HasSubstr("cannot be halved as often"));
  EXPECT_THAT(refusal("vit", {}, "tag_id,name,category,count\n0,cat,0,1\n"), HasSubstr("names 1 tags, and the network in"));
  EXPECT_THAT(refusal("vit", {}, "tag_id,name,count\n0,cat,1\n"), HasSubstr("has no column 'category'"));
  EXPECT_THAT(refusal("vit", {}, "name,category\ncat,7\n"), HasSubstr("in category '7'"));
  EXPECT_THAT(test::error_of([] { Opened opened(test::golden_path("captions/qwen3_vl")); }),
              HasSubstr("there is no tagger of pictures in"));
  test::Scratch scratch;
  std::filesystem::copy(folder_of("vit"), scratch / "model");
  std::filesystem::remove(scratch / "model/selected_tags.csv");
  EXPECT_THAT(test::error_of([&] { Opened opened((scratch / "model").string()); }), HasSubstr("no selected_tags.csv beside it"));
}

}  // namespace burnish::tagging
