// Loading what units run: in which pieces, with which LoRAs merged, and what stays loaded behind it.
#include "loras/loader.h"

#include <gmock/gmock.h>

#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/skeleton_model.h"

using namespace burnish;
using loras::Loader;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

class LoaderTest : public testing::Test {
 protected:
  LoaderTest() {
    test::save_skeleton(folder / "model.safetensors");
    model = test::open_skeleton(folder / "model.safetensors");
    auto groups = model->units();
    encode = groups.encode_prompt;
    denoise = groups.denoise;
  }
  /// Under which names models are loaded.
  std::vector<std::string> loaded_models() const {
    std::vector<std::string> names{"dit", "text_encoder", "text_encoder.body", "text_encoder.projector", "vae"};
    std::erase_if(names, [&](const auto& name) { return !model->components().is_loaded(name); });
    return names;
  }
  at::Tensor weight() const { return *model->components().module("dit").parameters().at("blocks.0.to_q.weight"); }
  /// A file that adds `update` times the strength to every number of a layer's weight.
  std::string lora(const std::string& layer, double update) const {
    auto file = folder / "lora.safetensors";
    io::save_safetensors(file, {{layer + ".lora_A.weight", at::ones({1, 16})}, {layer + ".lora_B.weight", at::full({16, 1}, update)}});
    return file.string();
  }

  test::Scratch folder;
  std::unique_ptr<models::Model> model;
  pipeline::Units encode, denoise;
};

}  // namespace

TEST(LoraFile, IsAFileAndItsStrength) {
  auto parsed = [](const std::string& text) {
    auto file = loras::parse_lora_file(text);
    return file.path + " at " + std::to_string(file.strength).substr(0, 4);
  };
  EXPECT_EQ(parsed("cat.safetensors"), "cat.safetensors at 1.00");
  EXPECT_EQ(parsed("cat.safetensors:0.8"), "cat.safetensors at 0.80");
  EXPECT_EQ(parsed("cat.safetensors:-2"), "cat.safetensors at -2.0");
  EXPECT_EQ(parsed("C:cat.safetensors"), "C:cat.safetensors at 1.00");
  test::Scratch folder;
  auto there = folder.write("cat:3", "").string();
  EXPECT_EQ(parsed(there), there + " at 1.00");
}

TEST_F(LoaderTest, LoadsWhatIsWantedOfAComponentInOnePieceAndDropsIt) {
  Loader loader(*model);
  {
    auto loaded = loader.load(encode);
    EXPECT_THAT(loaded_models(), ElementsAre("text_encoder"));
  }
  EXPECT_THAT(loaded_models(), IsEmpty());
  EXPECT_THROW(model->components().module("text_encoder"), std::logic_error);
}

TEST_F(LoaderTest, LeavesAloneWhatIsHeld) {
  model->components().load("dit");
  model->components().load("text_encoder.projector");
  auto* dit = &model->components().module("dit");
  {
    Loader loader(*model, {}, {"dit", "text_encoder.projector"});
    auto denoiser = loader.load(denoise);
    auto encoder = loader.load(encode);
    EXPECT_EQ(&model->components().module("dit"), dit);
    // Not the whole encoder, which would hold the projector again.
    EXPECT_THAT(loaded_models(), ElementsAre("dit", "text_encoder.body", "text_encoder.projector"));
  }
  EXPECT_THAT(loaded_models(), ElementsAre("dit", "text_encoder.projector"));
  EXPECT_EQ(&model->components().module("dit"), dit);
  EXPECT_NO_THROW(model->components().module("text_encoder.projector"));
}

TEST_F(LoaderTest, APartOfWhatIsHeldIsHeld) {
  model->components().load("text_encoder");
  Loader loader(*model, {}, {"text_encoder"});
  auto loaded = loader.load(encode);
  EXPECT_THAT(loaded_models(), ElementsAre("text_encoder"));
}

TEST_F(LoaderTest, WhatIsLoadedTwiceIsDroppedOnce) {
  Loader loader(*model);
  auto outer = loader.load(denoise);
  auto* dit = &model->components().module("dit");
  { auto inner = loader.load(denoise); }
  EXPECT_EQ(&model->components().module("dit"), dit);
}

TEST_F(LoaderTest, MergesIntoWhatItLoadsAndNotIntoWhatIsHeld) {
  model->components().load("dit");
  auto plain = weight().clone();
  std::vector<loras::LoraFile> files{{lora("dit.blocks.0.to_q", 0.25), 2}};
  {
    Loader holding(*model, files, {"dit"});
    auto loaded = holding.load(denoise);
    EXPECT_TRUE(at::equal(weight(), plain));
  }
  model->components().unload("dit");
  Loader loader(*model, files);
  for (int i = 0; i < 2; ++i) {  // each time from the file's weights
    auto loaded = loader.load(denoise);
    EXPECT_LE(test::relative_error(weight(), plain + 0.5), 1e-6);
  }
}

TEST_F(LoaderTest, APartTakesTheLayersThatItHas) {
  auto file = folder / "lora.safetensors";
  io::save_safetensors(file, {{"text_encoder.projector.linear.lora_A.weight", at::ones({1, 24})},
                              {"text_encoder.projector.linear.lora_B.weight", at::ones({16, 1})}});
  auto projector = [&](const std::vector<loras::LoraFile>& files) {
    Loader loader(*model, files);
    auto body = loader.load({encode[0]});
    auto head = loader.load({encode[1]});
    return model->components().module("text_encoder.projector").parameters().at("projector.linear.weight")->clone();
  };
  auto plain = projector({});
  EXPECT_LE(test::relative_error(projector({{file.string()}}), plain + 1), 1e-6);
}
