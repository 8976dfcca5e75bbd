// Losses that count where a mask says so, in whole runs: split, staged, in batches and variants, of every family.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "data/image.h"
#include "tests/integration/families/stable_diffusion.h"
#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kTraining = "--learning_rate 1e-3 --lora_rank 2 --lora_target_modules to_q,to_v --max_steps 3 ";

std::vector<std::string> logged_losses(const fs::path& run) { return logged_steps(run, {"loss", "grad_norm", "loss_by_time"}); }

void expect_equal(const fs::path& a, const fs::path& b) {
  EXPECT_EQ(logged_losses(a), logged_losses(b)) << a << b;
  EXPECT_TRUE(read_file(a / "step-3.safetensors") == read_file(b / "step-3.safetensors")) << a << b;
}

/// The golden pictures with masks beside them: of three the left half counts, the last has none.
class Masked : public testing::Test {
 protected:
  Masked() {
    fs::copy(kGolden / "pictures", folder / "pictures");
    auto pixels = data::decode_image(folder / "pictures/0.png");
    auto mask = at::zeros_like(pixels);
    data::write_png(folder / "pictures/black.png", mask);
    mask.narrow(1, 0, mask.size(1) / 2).fill_(255);
    data::write_png(folder / "pictures/left.png", mask);
    data::write_png(folder / "pictures/white.png", mask.fill_(255));
    data::write_png(folder / "pictures/small.png", mask.narrow(0, 0, 9));
  }
  std::string metadata(const std::string& mask) {
    auto file = folder / ("pictures/" + mask + ".csv");
    std::ofstream text(file);
    text << "image,prompt,mask\n";
    for (int i = 0; i < 3; ++i) text << i << ".png,a word," << mask << ".png\n";
    text << "3.png,red apple,\n";
    return option("dataset_metadata_path", file);
  }
  void ok(const std::string& arguments) {
    auto outcome = run_burnish(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
  }
  Scratch folder;
};

const std::string kSize = "--height 48 --width 64 ";
const std::string kMasked = "--masked_loss column --unmasked_weight 0.1 ";

}  // namespace

TEST_F(Masked, RunsAreTheSameSplitStagedAndLive) {
  auto cut = golden_model() + kSize + metadata("left") + "--random_flip --random_crop --cache_variants 3 --latents sample ";
  auto training = kTraining + kMasked + "--latents sample --batch_size 2 --loss_type huber ";
  ok("train " + cut + training + option("output_path", folder / "whole"));
  ok("train " + cut + training + "--precompute none " + option("output_path", folder / "live"));
  ok("train --task sft:data_process " + cut + kMasked + option("output_path", folder / "cache"));
  ok("train --task sft:train " + golden_model() + training + option("dataset_base_path", folder / "cache") +
     option("output_path", folder / "split"));
  expect_equal(folder / "whole", folder / "split");
  expect_equal(folder / "whole", folder / "live");
  ok("train " + cut + kTraining + "--latents sample --batch_size 2 --loss_type huber " + option("output_path", folder / "plain"));
  EXPECT_NE(logged_losses(folder / "plain"), logged_losses(folder / "whole"));
}

TEST_F(Masked, BlackIsNothingAndWhiteIsAll) {
  auto run = [&](const std::string& name, const std::string& options) {
    ok("train " + golden_model() + kSize + kTraining + options + "--validation_metadata_path '" + (folder / "pictures/held.csv").string() +
       "' " + option("output_path", folder / name));
  };
  std::ofstream(folder / "pictures/held.csv") << "image,prompt,mask\n0.png,a,black.png\n";
  std::ofstream(folder / "pictures/all_black.csv") << "image,prompt,mask\n0.png,a,black.png\n1.png,b,black.png\n";
  auto all_black = option("dataset_metadata_path", folder / "pictures/all_black.csv");
  run("black", "--masked_loss column " + all_black);
  for (const auto& line : read_log(folder / "black")) {
    EXPECT_EQ(line["loss"], 0);
    EXPECT_EQ(line["grad_norm"], 0);
  }
  auto validation = nlohmann::json::parse(read_file(folder / "black/validation.json"));
  EXPECT_EQ(validation["before"], 0) << "held-out samples are judged where their masks say so";
  run("white", "--masked_loss column " + metadata("white"));
  run("plain", metadata("white"));
  run("floor", "--masked_loss column --unmasked_weight 1 " + metadata("black"));
  expect_equal(folder / "white", folder / "plain");
  expect_equal(folder / "floor", folder / "plain");
}

TEST_F(Masked, WhatMasksLeaveOutIsHeldToTheModel) {
  auto run = [&](const std::string& name, const std::string& options) {
    ok("train " + golden_model() + kSize + kTraining + options + option("output_path", folder / name));
    return read_log(folder / name);
  };
  const std::string held = "--masked_prior_preservation_weight 0.5 ";
  auto log = run("left", kMasked + held + metadata("left"));
  EXPECT_EQ(log.at(0)["masked_prior_loss"], 0.0) << "with a fresh adapter";
  EXPECT_GT(log.at(2)["masked_prior_loss"].get<double>(), 0);
  run("plain", kMasked + metadata("left"));
  EXPECT_NE(read_file(folder / "left/step-3.safetensors"), read_file(folder / "plain/step-3.safetensors"));
  run("white", "--masked_loss column " + held + metadata("white"));
  run("all", metadata("white"));
  EXPECT_TRUE(read_file(folder / "white/step-3.safetensors") == read_file(folder / "all/step-3.safetensors")) << "nothing is left out";
}

TEST_F(Masked, MasksThatTrainNothingAreSaid) {
  auto run = "train --overwrite --masked_loss column " + golden_model() + kSize + kTraining + option("output_path", folder / "run");
  EXPECT_THAT(run_burnish(run + metadata("black")).output, HasSubstr("3 samples have a black mask where the picture is cut out"));
  EXPECT_THAT(run_burnish(run + metadata("left")).output, testing::Not(HasSubstr("mask where")));
  auto size = data::image_size(folder / "pictures/0.png");
  data::write_png(folder / "pictures/one.png", at::ones({size.height, size.width, 3}, at::kByte));
  EXPECT_THAT(run_burnish(run + metadata("one")).output, HasSubstr("3 samples have a mask without a pixel above 1 of 255"));
  auto survey = run_burnish("data '" + (folder / "pictures/one.csv").string() + "'");
  EXPECT_EQ(survey.exit_code, 0);
  EXPECT_THAT(survey.output, HasSubstr("warning: 3 samples have a mask without a pixel above 1 of 255"));
  std::ofstream(folder / "pictures/weights.csv") << "image,prompt,loss_weight\n0.png,a,0\n1.png,b,1\n";
  survey = run_burnish("data '" + (folder / "pictures/weights.csv").string() + "'");
  EXPECT_THAT(survey.output, HasSubstr("warning: 1 sample has a loss_weight of 0"));
}

TEST_F(Masked, AlphaAndColumnAgree) {
  auto rgba = fs::path(golden_path("data/rgba.png"));
  data::write_png(folder / "alpha.png", data::decode_alpha(rgba).expand({-1, -1, 3}));
  std::ofstream(folder / "m.csv") << "image,prompt,weights\n" << rgba.string() << ",a word," << (folder / "alpha.png").string() << "\n";
  auto common = "train " + golden_model() + "--height 16 --width 32 --normalize_masked_area_loss " + kTraining +
                option("dataset_metadata_path", folder / "m.csv");
  ok(common + "--masked_loss alpha " + option("output_path", folder / "alpha"));
  ok(common + "--masked_loss column --mask_column weights " + option("output_path", folder / "column"));
  expect_equal(folder / "alpha", folder / "column");
}

TEST_F(Masked, StableDiffusionCountsWithItsOwnWeightsToo) {
  for (const std::string pipeline : {"sdxl_pipeline", "sd15_pipeline"}) {
    auto common = sd_model(pipeline) + kMasked;
    auto data = metadata("left") + sd_size(pipeline);
    auto training = "--min_snr_gamma 5 " + kTraining;
    ok("train " + common + data + training + option("output_path", folder / (pipeline + "/whole")));
    ok("train --task sft:data_process " + common + data + option("output_path", folder / (pipeline + "/cache")));
    ok("train --task sft:train " + common + training + option("dataset_base_path", folder / (pipeline + "/cache")) +
       option("output_path", folder / (pipeline + "/split")));
    expect_equal(folder / (pipeline + "/whole"), folder / (pipeline + "/split"));
  }
}

TEST_F(Masked, WhatCannotBeIsRefusedBeforeLoading) {
  auto refused = [&](const std::string& options, int code, const std::string& text) {
    auto outcome = run_burnish("train " + golden_model() + kSize + kTraining + options + option("output_path", folder / "run"));
    EXPECT_EQ(outcome.exit_code, code) << options << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(text));
  };
  refused("--masked_loss column " + metadata("small"), 3, "cut alike");
  refused("--masked_loss column " + metadata("gone"), 3, "gone.png does not exist");
  refused("--masked_loss column --mask_column masks " + metadata("left"), 3, "no row names a mask in the column 'masks'");
  refused("--masked_loss mask " + metadata("left"), 2, "choose none, column or alpha");
  refused("--unmasked_weight 0.5 " + metadata("left"), 2, "set masked_loss");
  refused("--masked_loss alpha --unmasked_weight 2 " + metadata("left"), 2, "between 0 and 1");
  refused("--task direct_distill --masked_loss alpha " + metadata("left"), 2, "take masked_loss alpha out");
}

TEST_F(Masked, ACacheKnowsItsMasks) {
  auto make = "train --task sft:data_process " + golden_model() + kSize + metadata("left") + option("output_path", folder / "cache");
  auto train = "train --overwrite --task sft:train " + golden_model() + kTraining + kMasked +
               option("dataset_base_path", folder / "cache") + option("output_path", folder / "run");
  ok(make);
  auto without = run_burnish(train);
  EXPECT_EQ(without.exit_code, 3);
  EXPECT_THAT(without.output, HasSubstr("holds no 'loss_mask'"));
  auto again = run_burnish(make + kMasked);
  EXPECT_THAT(again.output, HasSubstr("encode_image: 0 of 4"));
  EXPECT_THAT(again.output, HasSubstr("encode_mask: 2 of 2")) << "one mask for three pictures, and none";
  ok(train);
  fs::copy(folder / "pictures/white.png", folder / "pictures/left.png", fs::copy_options::overwrite_existing);
  auto changed = run_burnish(train);
  EXPECT_EQ(changed.exit_code, 3);
  EXPECT_THAT(changed.output, HasSubstr("left.png (row 0) was changed"));
}
