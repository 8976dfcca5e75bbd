// Loading what units run: in which pieces, and what stays loaded behind it.
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
    auto groups = model->units_of(model->names().experts.front());
    encode = groups.encode_prompt;
    denoise = groups.denoise;
  }
  /// Under which names models are loaded.
  std::vector<std::string> loaded_models() const {
    std::vector<std::string> names{"dit", "text_encoder", "text_encoder.body", "text_encoder.projector", "vae"};
    std::erase_if(names, [&](const auto& name) { return !model->components().is_loaded(name); });
    return names;
  }
  test::Scratch folder;
  std::unique_ptr<models::Model> model;
  pipeline::Units encode, denoise;
};

}  // namespace

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
    Loader loader(*model, {"dit", "text_encoder.projector"});
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
  Loader loader(*model, {"text_encoder"});
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
