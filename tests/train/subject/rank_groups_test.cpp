// Layers whose adapters have ranks and alphas of their own, from the option to the file and back.
#include <gmock/gmock.h>

#include "base/error.h"
#include "io/safetensors.h"
#include "loras/lora_file.h"
#include "tests/scratch.h"
#include "tests/skeleton_model.h"
#include "train/subject/attached.h"
#include "train/subject/choosing.h"

using namespace burnish;
using namespace burnish::train;
using test::error_of;
using testing::HasSubstr;

namespace {

class RankGroups : public testing::Test {
 protected:
  RankGroups() {
    test::save_skeleton(folder / "model.safetensors");
    model = test::open_skeleton(folder / "model.safetensors");
    for (const char* component : {"dit", "text_encoder"}) model->components().load(component);
    settings.adapted = {"dit", "text_encoder"};
    settings.experts = {"high_noise"};
    settings.targets = "to_q,to_v,linear";
    settings.learning_rate = 1e-4;
    settings.adapter.rank = 3;
    settings.rank_groups = "text_encoder=2,.*\\.to_v=5,dit.blocks.1=7";
    settings.alpha_groups = "dit.blocks.0.to_q=6";
  }
  /// "component.path" of each adapter with its rank and scale.
  static std::map<std::string, std::pair<int64_t, double>> ranks(const loras::AdaptersByComponent& by_component) {
    std::map<std::string, std::pair<int64_t, double>> found;
    for (const auto& [component, weights] : by_component) {
      for (const auto& w : weights) found[component + "." + w.path] = {adapters::rank_of(w), w.scale};
    }
    return found;
  }
  /// What burnish reads of the file that it writes.
  loras::AdaptersByComponent written() {
    const auto chosen = choose(settings, *model);
    const Attached attached(chosen, *model);
    auto optimizer = optim::make_optimizer({}, attached.parameters());
    text = chosen.text(model->names());
    metadata.clear();
    loras::AdaptersByComponent all;
    for (const auto& file : attached.files(1, at::kFloat, *optimizer)) {
      metadata = file.metadata;  // of the denoiser in the end
      io::NamedTensors tensors;
      for (const auto& [spec, get] : file.values) tensors.emplace_back(spec.name, get());
      io::save_safetensors(folder / file.name, tensors, file.metadata);
      all.merge(loras::read(*model, folder / file.name));
    }
    return all;
  }

  test::Scratch folder;
  std::unique_ptr<models::Model> model;
  TrainedSettings settings;
  std::string text;
  io::Metadata metadata;
};

}  // namespace

TEST_F(RankGroups, AreInTheFileAndComeBack) {
  for (const char* type : {"lora", "dora", "loha", "lokr"}) {
    for (const char* layout : {"auto", "kohya"}) {
      settings.adapter.type = type;
      settings.adapter.lokr_factor = 2;  // leaves a second factor that is large enough to be split at these ranks
      settings.layout = adapters::parse_layout(layout);
      auto found = ranks(written());
      ASSERT_EQ(found.size(), 5u) << type;
      if (std::string(type) == "lokr") {
        EXPECT_EQ(found.at("text_encoder.projector.linear").first, 2);
        EXPECT_EQ(found.at("dit.blocks.0.to_q"), std::pair(int64_t{3}, 2.0));
        continue;
      }
      EXPECT_EQ(found.at("text_encoder.projector.linear"), std::pair(int64_t{2}, 1.0)) << type;
      EXPECT_EQ(found.at("dit.blocks.0.to_q"), std::pair(int64_t{3}, 2.0)) << type;
      EXPECT_EQ(found.at("dit.blocks.0.to_v"), std::pair(int64_t{5}, 1.0)) << type;
      EXPECT_EQ(found.at("dit.blocks.1.to_q"), std::pair(int64_t{7}, 1.0)) << type;
      EXPECT_EQ(found.at("dit.blocks.1.to_v"), std::pair(int64_t{7}, 1.0)) << type << ": the last entry that fits counts";
      EXPECT_EQ(text, std::string("") + type + " rank 3/5/7 on 4 layers of dit, " + type + " rank 2 on 1 layers of text_encoder");
      EXPECT_EQ(metadata.at("rank"), "3/5/7");
      EXPECT_EQ(metadata.at("alpha"), "6/5/7");
    }
  }
}

TEST_F(RankGroups, AFileWithThemIsTrainedOn) {
  auto before = ranks(written());
  settings.lora_checkpoint = (folder / "step-1.high_noise.safetensors").string() + "," + (folder / "step-1.safetensors").string();
  settings.rank_groups = settings.alpha_groups = "";
  settings.adapter.rank = adapters::AdapterOptions().rank;
  EXPECT_EQ(ranks(written()), before);
}

TEST_F(RankGroups, AlphaHoldsForEveryRankThatIsGiven) {
  settings.adapter.alpha = 6;
  settings.alpha_groups = "";
  auto found = ranks(written());
  EXPECT_DOUBLE_EQ(found.at("dit.blocks.0.to_q").second, 2);
  EXPECT_DOUBLE_EQ(found.at("text_encoder.projector.linear").second, 3);
}

TEST_F(RankGroups, WhatFitsNothingIsRefused) {
  settings.rank_groups = "vae=2";
  EXPECT_THAT(error_of([&] { choose(settings, *model); }, Exit::config), HasSubstr("lora_rank_groups: 'vae' fits nothing"));
  settings.rank_groups = "dit=2.5";
  EXPECT_THAT(error_of([&] { choose(settings, *model); }, Exit::config), HasSubstr("whole numbers, not 2.5"));
  settings.rank_groups = "";
  settings.alpha_groups = "dit.blocks.2=1";
  EXPECT_THAT(error_of([&] { choose(settings, *model); }, Exit::config), HasSubstr("lora_alpha_groups: 'dit.blocks.2' fits nothing"));
}
