// Hints about learning rates, and drawing from a run folder.
#include "train/options/hints.h"

#include <gmock/gmock.h>

#include "data/image.h"
#include "data/resize.h"
#include "tests/golden.h"
#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Hints, RatesFarFromWhatIsUsual) {
  train::TrainOptions o;
  EXPECT_EQ(train::learning_rate_hint(o), "");
  o.step.learning_rate = 0.01;
  EXPECT_THAT(train::learning_rate_hint(o), HasSubstr("high for an adapter; 1e-4 is usual"));
  o.step.learning_rate = 1e-4;
  o.trained.whole = "dit";
  EXPECT_THAT(train::learning_rate_hint(o), HasSubstr("high for a whole model"));
  o.step.learning_rate = 1e-5;
  EXPECT_EQ(train::learning_rate_hint(o), "");
  o.step.optimizer.name = "prodigy";
  EXPECT_THAT(train::learning_rate_hint(o), HasSubstr("1 is usual"));
  o.step.learning_rate = 1;
  EXPECT_EQ(train::learning_rate_hint(o), "");
}

TEST(Hints, StepsAndEpochsAtOnce) {
  train::TrainOptions o;
  o.course.max_steps = 100;
  EXPECT_EQ(train::length_hint(o), "");
  o.course.num_epochs = 3;
  EXPECT_THAT(train::length_hint(o), HasSubstr("num_epochs 3 has no effect beside max_steps 100"));
  o.course.num_epochs = 1;
  o.given = {"num_epochs"};
  EXPECT_THAT(train::length_hint(o), HasSubstr("num_epochs 1 has no effect"));
  o.course.max_steps = 0;
  EXPECT_EQ(train::length_hint(o), "");
}

namespace {

std::string page(const std::string& name) { return read_file(fs::path(test::kCheckout) / "docs" / name); }

class DrawnRun : public BadInput {
 protected:
  void trained(const std::string& more) const {
    auto outcome = run_burnish(train(more));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    output_ = outcome.output;
  }
  std::string drawn(const std::string& name, const std::string& options) const {
    auto outcome = run_burnish("sample " + options + " --prompt cat --num_inference_steps 2 --output_path " + quoted(at(name)));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    auto bytes = read_file(at(name) / "0000.png");
    return bytes.substr(bytes.find("IDAT"));  // without the texts, which name the files
  }
  mutable std::string output_;
};

}  // namespace

TEST(Hints, RatesOfTextEncodersStandInOneTable) {
  EXPECT_THAT(page("train.md"), HasSubstr("| SDXL | 1e-4 | 1e-5 each"));
  EXPECT_THAT(page("stable-diffusion.md"), HasSubstr("--text_encoder_lr 1e-5"));
  for (const char* other : {"optimizers.md", "stable-diffusion.md"}) {
    EXPECT_THAT(page(other), HasSubstr("(train.md#learning-rates)"));
    EXPECT_THAT(page(other), Not(HasSubstr("text encoders 5e-5"))) << other;
    EXPECT_THAT(page(other), Not(HasSubstr("text_encoder_lr 5e-5"))) << other;
  }
}

TEST_F(DrawnRun, IsAllThatSampleNeeds) {
  trained("--learning_rate 0.01 --save_steps 1");
  EXPECT_THAT(output_, HasSubstr("high for an adapter"));
  auto of_run = drawn("of_run", "--run " + quoted(out()));
  EXPECT_EQ(of_run, drawn("of_file", golden_model() + "--height 48 --width 64 --lora " + quoted(out() / "step-2.safetensors")));
  EXPECT_NE(of_run, drawn("of_first", "--run " + quoted(out()) + " --lora " + quoted(out() / "step-1.safetensors")));
  EXPECT_NE(of_run, drawn("wide", "--run " + quoted(out()) + " --width 48"));
  fs::copy_file(out() / "step-1.safetensors", out() / "best.safetensors");
  EXPECT_EQ(drawn("of_best", "--run " + quoted(out())),
            drawn("of_first_too", "--run " + quoted(out()) + " --lora " + quoted(out() / "step-1.safetensors")));
}

TEST_F(DrawnRun, OfAWholeModelIsDrawnWithItsWeights) {
  trained("--trainable_models dit,text_encoder --learning_rate 0.01");
  auto files = "--model " + quoted(out() / "step-2.safetensors") + " --model " + quoted(out() / "step-2.text_encoder.safetensors") + " ";
  EXPECT_EQ(drawn("of_run", "--run " + quoted(out())), drawn("of_files", files + golden_model() + "--height 48 --width 64"));
}

TEST_F(DrawnRun, PicturesAreAsLargeAsThoseOfTheFirstDataset) {
  auto config = write("data.toml", "[[datasets]]\nimage_dir = '" + (kGolden / "pictures").string() + "'\nresolution = [64, 48]\n");
  auto outcome =
      run_burnish(train_with(golden_model() + "--dataset_config " + quoted(config), "--max_steps 1 --output_path " + quoted(at("a"))));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(drawn("of_run", "--run " + quoted(at("a"))),
            drawn("of_file", golden_model() + "--height 48 --width 64 --lora " + quoted(at("a/step-1.safetensors"))));
}

/// Pictures keep their shapes here; three of four are upright.
TEST_F(DrawnRun, PicturesAreAsLargeAsMostOfTheRun) {
  auto pixels = data::decode_image(kGolden / "pictures/0.png");
  fs::create_directories(at("mixed"));
  std::string rows = "image,prompt\n";
  for (int i = 0; i < 4; ++i) {
    auto name = std::to_string(i) + ".png";
    data::write_png(at("mixed") / name, data::resize_and_crop(pixels, i == 0 ? data::Size{96, 96} : data::Size{64, 32}), {});
    rows += name + ",cat\n";
  }
  write("mixed/metadata.csv", rows);
  auto outcome = run_burnish(train_with(golden_model() + "--dataset_metadata_path " + quoted(at("mixed/metadata.csv")),
                                        "--max_steps 1 --output_name cat --output_path " + quoted(at("run"))));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("saved " + (at("run") / "cat-step-1.safetensors").string()));
  drawn("drawn", "--run " + quoted(at("run")));
  EXPECT_EQ(data::image_size(at("drawn/0000.png")), (data::Size{64, 32}));
  drawn("given", "--run " + quoted(at("run")) + " --height 48");
  EXPECT_EQ(data::image_size(at("given/0000.png")), (data::Size{48, 32})) << "what is given wins";
}

/// Two heads where published UNets of this width have one: no tensor tells, the config of the model does.
TEST_F(DrawnRun, OfAWholeModelOfOtherSizesHasItsOwnShape) {
  fs::copy(golden_path("sdxl_pipeline/model"), at("model"), fs::copy_options::recursive);
  auto path = at("model/unet/config.json");
  auto config = nlohmann::json::parse(read_file(path));
  config["attention_head_dim"] = 2;
  fs::remove(path);
  std::ofstream(path) << config;
  const auto model = "--model " + quoted(at("model")) + " --tokenizer_path " + quoted(kAssets / "tokenizer") + " ";
  auto outcome = run_burnish("train " + model + golden_data() + "--height 40 --width 64 --dtype fp32 --trainable_models unet " +
                             "--learning_rate 1e-5 --max_steps 1 --output_path " + quoted(out()));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  auto of_run = drawn("of_run", "--run " + quoted(out()));
  for (const auto& entry : fs::directory_iterator(at("model/unet"))) {
    if (entry.path().extension() == ".safetensors")
      fs::copy_file(out() / "step-1.safetensors", entry.path(), fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(of_run, drawn("of_folder", model + "--dtype fp32 --height 40 --width 64"));
}

TEST_F(DrawnRun, WithoutARunIsRefused) {
  refused(3, "sample --prompt cat --run " + quoted(at("nowhere")), {"is no folder of a training run"});
  write("empty/config.toml", "max_steps = 1\n");
  refused(3, "sample --prompt cat --run " + quoted(at("empty")), {"holds no weights that a run saved"});
}

/// What stands in a config file begins where the file is; what a run writes down is found from anywhere.
TEST_F(DrawnRun, FileNamesInAConfigFileBeginInItsFolder) {
  fs::create_directories(at("place"));
  fs::copy(kGolden / "pictures", at("place/pictures"), fs::copy_options::recursive);
  write("place/run.toml", "dataset_metadata_path = \"pictures\"\noutput_path = \"runs/cat\"\nheight = 48\nwidth = 64\nlora_rank = 4\n");
  auto from = [&](const std::string& folder, const std::string& arguments) {
    fs::create_directories(at(folder));
    auto outcome = run_burnish(arguments, "cd " + quoted(at(folder)) + " &&");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  };
  from("elsewhere", "train --config ../place/run.toml " + golden_model() + "--max_steps 1");
  EXPECT_TRUE(fs::exists(at("place/runs/cat/step-1.safetensors")));
  from(".", "train --config place/runs/cat/config.toml --max_steps 2 --resume");
  EXPECT_TRUE(fs::exists(at("place/runs/cat/step-2.safetensors")));
}

/// As datasets of the Hugging Face hub are: a metadata.csv among the pictures, which names them in file_name.
TEST_F(DrawnRun, MetadataIsFoundInsideTheFolder) {
  fs::copy(kGolden / "pictures", at("pictures"), fs::copy_options::recursive);
  auto text = read_file(kGolden / "pictures/metadata.csv");
  write("pictures/metadata.csv", "file_name,text" + text.substr(text.find('\n')));
  auto run = [&](const std::string& data, const std::string& name) {
    auto outcome = run_burnish(train_with(golden_model() + data + " --height 48 --width 64", "--output_path " + quoted(at(name))));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    std::vector<double> losses;
    for (const auto& line : read_log(at(name))) losses.push_back(line["loss"]);
    return losses;
  };
  EXPECT_EQ(run("--dataset_metadata_path " + quoted(at("pictures")), "a"), run(golden_data(), "b"));
  EXPECT_EQ(run("--dataset_base_path " + quoted(at("pictures")), "c"), run(golden_data(), "d"));
}

namespace {

/// The sentence with which a command ends at once.
std::string told_of(const std::string& arguments) {
  const auto outcome = run_burnish(arguments, "BURNISH_LOG=error");
  EXPECT_EQ(outcome.exit_code == 2 || outcome.exit_code == 3, true) << outcome.output;
  return outcome.output;
}

}  // namespace

TEST(Words, OfOtherProgramsAreAnsweredByOurs) {
  for (const auto& [theirs, ours] : std::vector<std::pair<std::string, std::string>>{{"rank", "lora_rank"},
                                                                                     {"network_alpha", "lora_alpha"},
                                                                                     {"lr", "learning_rate"},
                                                                                     {"steps", "max_steps"},
                                                                                     {"epochs", "num_epochs"},
                                                                                     {"batch", "batch_size"},
                                                                                     {"output", "output_path"},
                                                                                     {"dataset", "dataset_metadata_path"},
                                                                                     {"data_dir", "dataset_metadata_path"},
                                                                                     {"max_train_epochs", "num_epochs"}}) {
    EXPECT_THAT(told_of("train --" + theirs + " 4"), HasSubstr("called " + ours + " here")) << theirs;
  }
  EXPECT_THAT(told_of("sample --steps 4"), HasSubstr("called num_inference_steps here"));
  EXPECT_THAT(told_of("train --loar_rank 4"), HasSubstr("did you mean 'lora_rank'?")) << "a slip is no word of others";
}

TEST(Words, ForWhatIsNoModelNameWhatIs) {
  EXPECT_THAT(told_of("train --model flux-dev --height 64 --width 64 --dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv")),
              HasSubstr("--model black-forest-labs/FLUX.1-dev"));
  EXPECT_THAT(told_of("sample --model flux-dev --prompt cat"), HasSubstr("--model black-forest-labs/FLUX.1-dev"));
  Scratch scratch;
  io::save_safetensors(scratch / "mine.safetensors", {{"lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight", at::zeros({2, 4})},
                                                      {"lora_unet_double_blocks_0_img_attn_qkv.lora_up.weight", at::zeros({4, 2})},
                                                      {"lora_unet_double_blocks_0_img_attn_qkv.alpha", at::ones({})}});
  EXPECT_THAT(told_of("sample --prompt cat --model " + quoted(scratch / "mine.safetensors")),
              testing::AllOf(HasSubstr("is a LoRA, not a model"), HasSubstr("--lora")));
}

TEST(Words, OfHelpAreThoseOfAFirstUse) {
  for (const char* verb : {"sample", "data", "train"}) {
    const auto few = run_burnish(std::string(verb) + " --help").output, all = run_burnish(std::string(verb) + " --help all").output;
    EXPECT_LE(std::ranges::count(few, '\n'), 60) << verb;
    EXPECT_GT(std::ranges::count(all, '\n'), std::ranges::count(few, '\n')) << verb;
    EXPECT_THAT(few, HasSubstr("--help all")) << verb;
  }
}
