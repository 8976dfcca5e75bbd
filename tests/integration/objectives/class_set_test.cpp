// Prior preservation in whole runs: a class set beside the samples, split, resumed and weighed.
#include <gmock/gmock.h>

#include <set>

#include "tests/integration/program.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

/// The golden pictures are the samples; a folder with two pictures and their captions is the class set.
class ClassSet : public testing::Test {
 protected:
  ClassSet() {
    fs::create_directory(folder / "class");
    for (const char* name : {"a", "b"}) {
      fs::copy(kGolden / ("pictures/" + std::string(*name == 'a' ? "2" : "1") + ".png"), folder / ("class/" + std::string(name) + ".png"));
      std::ofstream(folder / ("class/" + std::string(name) + ".txt")) << "a picture " << name;
    }
  }
  std::string class_set() const { return option("class_metadata_path", folder / "class"); }
  void ok(const std::string& arguments) {
    auto outcome = run_burnish(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
    output = outcome.output;
  }
  Scratch folder;
  std::string output;
};

const std::string kTraining = "--learning_rate 1e-3 --lora_rank 2 --lora_target_modules to_q,to_v --batch_size 2 --prior_loss_weight 0.3 ";

/// Steps too small to be seen in a loss, so that a visit's loss is the same in every run.
const std::string kStill = "--learning_rate 1e-30 --lora_rank 2 --lora_target_modules to_q,to_v --num_epochs 1 ";

}  // namespace

TEST_F(ClassSet, RunsAreTheSameSplitAndResumed) {
  std::ofstream metadata(folder / "weighted.csv");
  metadata << "image,prompt,loss_weight\n";
  for (int i = 0; i < 4; ++i) metadata << (kGolden / "pictures").string() << "/" << i << ".png,red apple," << 0.5 * i << "\n";
  metadata.close();
  auto all = golden_model() + "--height 48 --width 64 " + option("dataset_metadata_path", folder / "weighted.csv") + class_set();
  ok("train " + all + kTraining + "--max_steps 6 " + option("output_path", folder / "whole"));
  EXPECT_THAT(output, HasSubstr("4 samples and 2 of the class set, 4 batches an epoch"));
  ok("train --task sft:data_process " + all + option("output_path", folder / "cache"));
  ok("train --task sft:train " + golden_model() + kTraining + "--max_steps 6 " + option("dataset_base_path", folder / "cache") +
     option("output_path", folder / "split"));
  EXPECT_EQ(logged_steps(folder / "whole"), logged_steps(folder / "split"));
  EXPECT_TRUE(read_file(folder / "whole/step-6.safetensors") == read_file(folder / "split/step-6.safetensors"));

  auto halves = "train " + all + kTraining + option("output_path", folder / "halves");
  ok(halves + "--max_steps 3 ");
  ok(halves + "--max_steps 6 --resume ");
  EXPECT_EQ(logged_steps(folder / "whole"), logged_steps(folder / "halves"));
  EXPECT_TRUE(read_file(folder / "whole/step-6.safetensors") == read_file(folder / "halves/step-6.safetensors"));
}

TEST_F(ClassSet, ItsWeightIsOnItsLossAlone) {
  auto run = [&](const std::string& name, const std::string& options) {
    ok("train " + golden_model() + golden_data() + kStill + options + option("output_path", folder / name));
    std::multiset<double> found;
    for (const auto& line : read_log(folder / name)) found.insert(line["loss"].get<double>());
    return found;
  };
  auto whole = run("one", class_set()), none = run("none", class_set() + "--prior_loss_weight 0 ");
  EXPECT_EQ(whole.size(), 8u);
  EXPECT_EQ(none.count(0.0), 4u) << "half of the visits are the class set's";
  for (auto loss : none) EXPECT_TRUE(loss == 0 || whole.contains(loss)) << loss;
}

TEST_F(ClassSet, ACacheNoticesThatItWasChanged) {
  ok("train --task sft:data_process " + golden_model() + golden_data() + class_set() + option("output_path", folder / "cache"));
  std::ofstream(folder / "class/a.txt") << "another caption";
  auto changed = run_burnish("train --task sft:train " + golden_model() + kTraining + option("dataset_base_path", folder / "cache") +
                             option("output_path", folder / "run"));
  EXPECT_EQ(changed.exit_code, 3);
  EXPECT_THAT(changed.output, testing::AllOf(HasSubstr("the metadata"), HasSubstr("class was changed")));
}

TEST_F(ClassSet, WhatContradictsItselfIsRefused) {
  auto refused = [&](const std::string& options, int code, const std::string& text) {
    auto outcome = run_burnish("train " + golden_model() + options + option("output_path", folder / "run"));
    EXPECT_EQ(outcome.exit_code, code) << options << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(text));
  };
  refused(golden_data() + "--prior_loss_weight 0.5 ", 2, "this run has none");
  refused(golden_data() + class_set() + "--prior_loss_weight -1 ", 2, "prior_loss_weight must be at least 0");
  refused(golden_data() + "--class_base_path x ", 2, "name one in class_metadata_path");
  refused("--task sft:train " + class_set() + option("dataset_base_path", folder.path()), 2, "belongs to the command that makes the cache");
  fs::remove(folder / "class/b.txt");
  refused(golden_data() + class_set(), 3, "has no caption");
}

TEST_F(ClassSet, PicturesThatAreLearnedAsWellAreCounted) {
  ok("train " + golden_model() + golden_data() + kTraining + "--max_steps 1 " +
     option("class_metadata_path", kGolden / "pictures/metadata.csv") + option("output_path", folder / "both"));
  EXPECT_THAT(output, HasSubstr("4 of the class set's samples are among those that are learned as well"));
}
