// Options of adapters beside a LoRA file that training starts from: the file decides, and they may not say otherwise.
#include "train/subject/checkpoint_agreement.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/scratch.h"
#include "tests/skeleton_model.h"
#include "train/subject/choosing.h"
#include "train/subject/chosen.h"

using namespace burnish;
using namespace burnish::train;
using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

namespace {

class CheckpointAgreement : public testing::Test {
 protected:
  CheckpointAgreement() {
    test::save_skeleton(folder / "model.safetensors", /*num_experts=*/1);
    model = test::open_skeleton(folder / "model.safetensors");
    io::NamedTensors tensors;
    for (const char* layer : {"dit.blocks.0.to_q", "dit.blocks.1.to_q"}) {
      tensors.emplace_back(std::string(layer) + ".lora_A.weight", at::ones({4, 16}));
      tensors.emplace_back(std::string(layer) + ".lora_B.weight", at::ones({16, 4}));
      tensors.emplace_back(std::string(layer) + ".alpha", at::full({}, 2.0));
    }
    settings.lora_checkpoint = (folder / "lora.safetensors").string();
    settings.learning_rate = 1e-4;
    io::save_safetensors(settings.lora_checkpoint, tensors);
  }
  void refused(const std::string& asked, const std::string& found) {
    EXPECT_THAT(error_of([&] { choose(settings, *model); }, Exit::config), AllOf(HasSubstr(asked), HasSubstr(found)));
  }

  test::Scratch folder;
  std::unique_ptr<models::Model> model;
  TrainedSettings settings;
};

}  // namespace

TEST_F(CheckpointAgreement, TheSameOrNothingIsTaken) {
  EXPECT_NO_THROW(choose(settings, *model));
  settings.adapter.rank = 4;
  settings.adapter.alpha = 2;
  settings.targets = "to_q";
  EXPECT_NO_THROW(choose(settings, *model));
  settings.adapter.use_rslora = true;
  settings.adapter.alpha = 1;  // 1 / √4 = 2 / 4
  EXPECT_NO_THROW(choose(settings, *model));
}

TEST_F(CheckpointAgreement, ASmallerRankIsRefused) {
  settings.adapter.rank = 2;
  refused("lora_rank 2", "'blocks.0.to_q' has 4");
  refused("lora_rank 2", "burnish convert --lora_rank 2");
}

TEST_F(CheckpointAgreement, ALargerRankPadsTheFactors) {
  auto expect_rank = [&](int64_t rank) {
    auto chosen = choose(settings, *model);
    EXPECT_EQ(chosen.rank, rank);
    for (const auto& w : chosen.adapted[0].weights) {
      EXPECT_EQ(adapters::rank_of(w), rank);
      EXPECT_EQ(w.scale, 0.5) << "as in the file, whose alpha is 2";
    }
  };
  expect_rank(4);
  settings.adapter.rank = 8;
  expect_rank(8);
  settings.adapter.alpha = 2;  // what the file says
  expect_rank(8);
  settings.adapter.alpha = 4;  // what that is of the larger rank
  expect_rank(8);
  settings.adapter.alpha = 8;
  refused("lora_alpha 8", "has 4");
  settings.adapter = {};
  settings.given = {"lora_rank"};  // which says its default
  expect_rank(32);
}

TEST_F(CheckpointAgreement, ADefaultThatIsAskedForIsRefused) {
  settings.given = {"lora_alpha"};
  refused("lora_alpha 4", "has 2");
  settings.given = {"lora_type", "dora_norm", "learning_rate"};
  EXPECT_NO_THROW(choose(settings, *model));
}

TEST_F(CheckpointAgreement, AnotherAlphaIsRefused) {
  settings.adapter.alpha = 4;
  refused("lora_alpha 4", "has 2");
  settings.adapter.alpha = 2;
  settings.adapter.use_rslora = true;
  refused("lora_alpha 2 with use_rslora", "has 1");
}

TEST_F(CheckpointAgreement, AnotherTypeIsRefused) {
  settings.adapter.type = "dora";
  refused("lora_type dora", "has lora");
}

TEST_F(CheckpointAgreement, OtherLayersAreRefused) {
  settings.targets = "to_q,to_v";
  refused("lora_target_modules", "'blocks.0.to_v' is in the option alone");
  settings.targets = "blocks.0.to_q,nothing_else";
  refused("lora_target_modules", "'blocks.1.to_q' is in the file alone");
}
