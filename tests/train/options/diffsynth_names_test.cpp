// Options of DiffSynth-Studio whose meaning here lies in others.
#include "train/options/diffsynth_names.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "io/safetensors.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::train;
using test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

TrainOptions with_class(const std::string& name, double weight_decay = 0.01) {
  TrainOptions options;
  options.step.optimizer.weight_decay = weight_decay;
  put({.resume_from_checkpoint = "", .customized_optimizer = name}, options);
  return options;
}

std::vector<std::string> put_file(const std::string& file, TrainOptions& options) {
  return put({.resume_from_checkpoint = file, .customized_optimizer = ""}, options);
}

}  // namespace

TEST(DiffSynthNames, ClassesOfOptimizersAreOptimizers) {
  const std::pair<const char*, const char*> expected[] = {{"torch.optim.AdamW", "adamw"},
                                                          {"torch.optim.adamw.AdamW", "adamw"},
                                                          {"torch.optim.Muon", "muon"},
                                                          {"bitsandbytes.optim.AdamW8bit", "adamw8bit"},
                                                          {"bitsandbytes.optim.PagedAdamW8bit", "adamw8bit"},
                                                          {"bitsandbytes.optim.Adam8bit", "adamw8bit"},
                                                          {"bitsandbytes.optim.adamw.AdamW", "adamw"},
                                                          {"bitsandbytes.optim.Lion8bit", "lion"},
                                                          {"lion_pytorch.Lion", "lion"},
                                                          {"prodigyopt.Prodigy", "prodigy"},
                                                          {"prodigyplus.ProdigyPlusScheduleFree", "prodigy_schedulefree"},
                                                          {"schedulefree.AdamWScheduleFree", "adamw_schedulefree"},
                                                          {"came_pytorch.CAME", "came"},
                                                          {"transformers.optimization.Adafactor", "adafactor"}};
  for (const auto& [name, ours] : expected) {
    auto options = with_class(name);
    EXPECT_EQ(options.step.optimizer.name, ours) << name;
    optim::check(
        {options.step.optimizer.name, options.step.optimizer.weight_decay, optim::Rounding::stochastic, 0, options.step.optimizer.args});
  }
  EXPECT_EQ(with_class("torch.optim.AdamW").step.optimizer.args, "");
  EXPECT_EQ(with_class("torch.optim.Muon").step.optimizer.args, "adjust_lr_fn=original");
  EXPECT_EQ(with_class("transformers.Adafactor").step.optimizer.args, "scale_parameter=true");
}

TEST(DiffSynthNames, ClassesWithoutACounterpartAreRefusedWithThoseThatHaveOne) {
  for (const char* name : {"torch.optim.SGD", "AdamW", "mine.AdamW", "torch.optim.adamw"}) {
    auto said = error_of([&] { with_class(name); }, Exit::config);
    EXPECT_THAT(said, HasSubstr(std::string("customized_optimizer ") + name + " is no class"));
    EXPECT_THAT(said, HasSubstr("torch.optim.AdamW|Adam|Muon, bitsandbytes.optim.AdamW|"));
    EXPECT_THAT(said, HasSubstr("prodigyopt.Prodigy"));
  }
  // A decay in the gradient is another method; without one both are the same.
  EXPECT_THAT(error_of([] { with_class("torch.optim.Adam"); }, Exit::config), HasSubstr("give weight_decay 0, or name torch.optim.AdamW"));
  EXPECT_EQ(with_class("torch.optim.Adam", 0).step.optimizer.name, "adamw");
}

TEST(DiffSynthNames, TwoOptimizersAreRefusedAndNumbersThatAreGivenStay) {
  TrainOptions options;
  options.step.optimizer.name = "lion";
  EXPECT_THAT(error_of([&] { put({.resume_from_checkpoint = "", .customized_optimizer = "torch.optim.AdamW"}, options); }, Exit::config),
              HasSubstr("optimizer lion and customized_optimizer torch.optim.AdamW ask for two"));
  options = {};
  options.step.optimizer.args = "scale_parameter=false,eps2=1e-2";
  put({.resume_from_checkpoint = "", .customized_optimizer = "transformers.Adafactor"}, options);
  EXPECT_EQ(options.step.optimizer.args, "scale_parameter=false,eps2=1e-2");
}

TEST(DiffSynthNames, WeightsToStartFromGoByWhatTheFileHolds) {
  auto lora = test::golden_path("pipeline/lora.safetensors");
  auto whole = test::golden_path("pipeline/model/transformer/diffusion_pytorch_model.safetensors");
  TrainOptions options;
  EXPECT_THAT(put_file(lora, options), ElementsAre(HasSubstr("becomes lora_checkpoint: it holds lora of rank 4 on")));
  put_file(lora, options);  // once more changes nothing
  EXPECT_EQ(options.trained.lora_checkpoint, lora);
  EXPECT_TRUE(options.model.model.empty());
  options.trained.lora_checkpoint = "other.safetensors";
  EXPECT_THAT(error_of([&] { put_file(lora, options); }, Exit::config), HasSubstr("lora_checkpoint names another"));

  options = {};
  options.model.model = {"flux"};
  for (int i = 0; i < 2; ++i) EXPECT_THAT(put_file(whole, options), ElementsAre(HasSubstr("becomes model")));
  EXPECT_THAT(options.model.model, ElementsAre(whole, "flux"));
  EXPECT_EQ(options.trained.lora_checkpoint, "");
  EXPECT_THAT(error_of([&] { put_file("none.safetensors", options); }, Exit::data), HasSubstr("none.safetensors, are not there"));
}
