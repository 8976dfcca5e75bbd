// Terms that hold a model to what it was, and losses under guidance: beside plain torch with peft (tests/golden/make_terms.py), in all ways
// of running them, under every kind of adapter, and what they refuse.
#include <ATen/ATen.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "data/image.h"
#include "io/safetensors.h"
#include "tests/integration/families/stable_diffusion.h"
#include "tests/integration/moved.h"
#include "tests/small_families.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kClass = "--trigger_word sks --diff_output_preservation --diff_output_preservation_class fruit ";
const std::string kBlank = "--blank_prompt_preservation ";
const std::string kTermLora = "--lora_rank 2 --learning_rate 1e-3 ";

class Terms : public testing::Test {
 protected:
  static std::string flux() { return golden_model() + "--height 48 --width 64 "; }
  static std::string data() { return option("dataset_metadata_path", kGolden / "pictures/metadata.csv"); }
  std::string class_set() const {
    fs::create_directories(folder / "class");
    fs::copy_file(kGolden / "pictures/2.png", folder / "class/a.png", fs::copy_options::skip_existing);
    std::ofstream(folder / "class/a.txt") << "a picture";
    return option("class_metadata_path", folder / "class");
  }
  std::vector<nlohmann::json> train(const std::string& options, const std::string& run) {
    auto out = run_burnish("train --overwrite " + options + option("output_path", folder / run));
    EXPECT_EQ(out.exit_code, 0) << options << "\n" << out.output;
    output = out.output;
    return read_log(folder / run);
  }
  void expect_refused(const std::string& options, int code, const char* text) {
    auto out = run_burnish("train " + options + flux() + data() + option("output_path", folder / "refused"));
    EXPECT_EQ(out.exit_code, code) << options << "\n" << out.output;
    EXPECT_THAT(out.output, HasSubstr(text));
  }
  /// How far the run's adapter moved: the largest number of B, which begins at nothing.
  double moved(const std::string& run, int steps) const {
    double most = 0;
    auto file = io::SafetensorsFile::open(folder / run / fmt::format("step-{}.safetensors", steps));
    for (const auto& [name, info] : file->tensors()) {
      if (name.find("lora_B") != name.npos) most = std::max(most, file->tensor(name).abs().max().item<double>());
    }
    return most;
  }
  /// Writes the golden metadata's rows from one to before another into a file, with a further column.
  std::string rows(const char* name, size_t from, size_t to, const std::string& column = "", const std::string& value = "") const {
    std::ifstream all(kGolden / "pictures/metadata.csv");
    std::ofstream some(folder / name);
    std::string line;
    for (size_t i = 0; std::getline(all, line); ++i) {
      std::erase(line, '\r');
      if (i == 0) some << line << column << "\n";
      else if (i > from && i <= to) some << (kGolden / "pictures").string() << "/" << line << value << "\n";
    }
    return (folder / name).string();
  }
  /// The last two pictures are of a class.
  std::string with_class_rows() const {
    return option("dataset_metadata_path", rows("own.csv", 0, 2)) + option("class_metadata_path", rows("class.csv", 2, 4));
  }
  /// Of each picture the left half counts whole, and a quarter by two fifths.
  std::string masked() const {
    auto mask = at::zeros({48, 64, 1}, at::kByte);
    mask.narrow(1, 0, 32).fill_(255);
    mask.narrow(1, 32, 16).fill_(102);
    data::write_png(folder / "mask.png", mask);
    return option("dataset_metadata_path", rows("masked.csv", 0, 4, ",mask", "," + (folder / "mask.png").string()));
  }
  Scratch folder;
  std::string output;
};

std::vector<std::string> shown_numbers(const std::vector<nlohmann::json>& log) {
  std::vector<std::string> lines;
  for (auto line : log) {
    for (const char* other : {"time", "seconds", "samples_per_second", "step_seconds", "data_seconds", "peak_memory_bytes"})
      line.erase(other);
    lines.push_back(line.dump());
  }
  return lines;
}

}  // namespace

TEST_F(Terms, EqualPlainTorch) {
  const auto marked = data() + "--trigger_word sks ";
  for (const auto& [name, options] : {std::pair{"class", marked + kClass + "--diff_output_preservation_multiplier 0.5 "},
                                      {"blank", marked + kBlank + "--blank_prompt_preservation_multiplier 2 "},
                                      {"drift", marked + "--drift_loss_weight 0.3 "},
                                      {"guided", marked + "--training_cfg_scale 3 "},
                                      {"moved", marked + "--training_cfg_scale 3 --training_cfg_schedule sigma --training_cfg_zero "
                                                         "--training_cfg_loss target "},
                                      {"prior", with_class_rows() + "--class_target model "},
                                      {"masked", masked() + "--trigger_word sks --masked_loss column --unmasked_weight 0.1 "
                                                            "--normalize_masked_area_loss --masked_prior_preservation_weight 0.7 "},
                                      {"tlora", marked + "--tlora_min_rank 1 "}}) {
    train(flux() + options + "--loss_weighting diffsynth --learning_rate 1e-2 --optimizer_args eps=1e-3 --max_steps 4 " +
              option("replay", kGolden / "replay.safetensors") + option("lora_checkpoint", kGolden / "lora.safetensors"),
          name);
    expect_case(folder / name, golden("terms.safetensors"), name, kGolden / "lora.safetensors");
  }
}

TEST_F(Terms, AreNothingWhileAnAdapterIs) {
  const auto terms = kClass + kBlank + "--drift_loss_weight 1 ";
  const auto in_codes = "--fp8_models dit --dtype bf16 --use_gradient_checkpointing " + flux() + data();
  std::vector<std::string> runs{"--lora_base_model dit,text_encoder,text_encoder_2 " + flux() + data(),
                                sd_model("sdxl_pipeline") + sd_data("sdxl_pipeline")};
  for (const std::string kind : {"lora", "dora", "loha", "lokr", "oft", "full"}) runs.push_back(in_codes + "--lora_type " + kind + " ");
  for (const auto& options : runs) {
    auto log = train("--max_steps 2 --batch_size 2 " + kTermLora + terms + options, "run");
    ASSERT_EQ(log.size(), 2u);
    for (const char* term : {"class_preservation_loss", "blank_preservation_loss", "drift_loss"}) {
      EXPECT_EQ(log[0][term], 0.0) << term << " " << options;
      EXPECT_GT(log[1][term].get<double>(), 0) << term << " " << options;
    }
  }
}

TEST_F(Terms, AnInfiniteWeightKeepsTheModel) {
  const auto run = "--max_steps 24 --lr_scheduler linear " + kTermLora + flux() + data();
  auto free = train(run + "--drift_loss_weight 1e-30 ", "free");
  auto held = train(run + "--drift_loss_weight 1e6 ", "held");
  EXPECT_GT(free.back()["drift_loss"].get<double>(), 3e-4);
  EXPECT_LT(held.back()["drift_loss"].get<double>(), 0.02 * free.back()["drift_loss"].get<double>());
  EXPECT_GT(moved("free", 24), 1e-4);
  auto still =
      train(kTermLora + "--max_steps 3 --sft_loss_weight 0 --drift_loss_weight 1 --blank_prompt_preservation " + flux() + data(), "still");
  EXPECT_EQ(still.back()["drift_loss"], 0.0) << "there is nothing to learn from, so nothing moves";
  EXPECT_EQ(moved("still", 3), 0);
}

TEST_F(Terms, SplitStagedAndResumedRunsAreTheUnsplitOne) {
  const auto terms = kClass + kBlank + "--drift_loss_weight 0.5 --training_cfg_scale 2 --training_cfg_scale_max 4 --class_target model ";
  auto how = "--random_flip --latents sample --caption_dropout 0.3 ";
  auto more = "--max_steps 4 --batch_size 2 " + kTermLora + terms;
  auto log = shown_numbers(train(flux() + data() + class_set() + how + more, "whole"));
  EXPECT_EQ(shown_numbers(train("--precompute none " + flux() + data() + class_set() + how + more, "live")), log);
  train(flux() + data() + class_set() + how + "--max_steps 2 --batch_size 2 " + kTermLora + terms, "resumed");
  auto out = run_burnish("train --resume " + flux() + data() + class_set() + how + more + option("output_path", folder / "resumed"));
  EXPECT_EQ(out.exit_code, 0) << out.output;
  EXPECT_EQ(shown_numbers(read_log(folder / "resumed")), log);
  out =
      run_burnish("train --task sft:data_process " + flux() + data() + class_set() + how + terms + option("output_path", folder / "cache"));
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto split = "--task sft:train --latents sample --dtype fp32 " + option("model", kGolden / "model/transformer") +
               option("dataset_base_path", folder / "cache") + more.substr(0, more.find("--trigger_word")) +
               terms.substr(terms.find("--diff_output"));
  EXPECT_EQ(shown_numbers(train(split, "split")), log);
  EXPECT_NE(shown_numbers(train(flux() + data() + class_set() + how + "--max_steps 4 --batch_size 2 " + kTermLora, "without")), log);
}

TEST_F(Terms, DrawnCaptionsHaveTheClassToo) {
  std::ofstream metadata(folder / "tags.csv");
  metadata << "image,prompt\n";
  for (int i = 0; i < 4; ++i) metadata << (kGolden / "pictures").string() << "/" << i << ".png,\"red, sks, tree, apple\"\n";
  metadata.close();
  auto tags = flux() + option("dataset_metadata_path", folder / "tags.csv") + "--shuffle_caption --caption_dropout 0.5 --max_steps 4 ";
  auto log = shown_numbers(train(tags + kTermLora + kClass, "cached"));
  EXPECT_EQ(shown_numbers(train("--precompute none " + tags + kTermLora + kClass, "live")), log);
}

TEST_F(Terms, WholeModelsAreComparedWithWhatWasComputedAhead) {
  const auto terms = kClass + "--drift_loss_weight 0.5 ";
  expect_refused("--trainable_models dit --max_steps 1 " + terms, 2, "dit trains whole");
  auto options =
      "--trainable_models dit,text_encoder --precompute_timesteps on --learning_rate 1e-5 --max_steps 3 " + flux() + data() + terms;
  auto log = train(options, "whole");
  EXPECT_EQ(log[0]["drift_loss"], 0.0);
  EXPECT_EQ(log[0]["class_preservation_loss"], 0.0);
  EXPECT_GT(log[2]["drift_loss"].get<double>(), 0);
}

TEST_F(Terms, AClassSetMayBeHeldToTheModel) {
  auto steps = "--num_epochs 1 --lora_rank 2 --learning_rate 1e-30 ";
  auto log = train(flux() + data() + class_set() + steps + "--class_target model ", "model");
  auto as_they_are = train(flux() + data() + class_set() + steps, "data");
  ASSERT_EQ(log.size(), 8u);
  int kept = 0;
  for (size_t i = 0; i < log.size(); ++i) {
    if (log[i]["loss"] == 0.0) ++kept;
    else EXPECT_EQ(log[i]["loss"], as_they_are[i]["loss"]);
  }
  EXPECT_EQ(kept, 4) << "half of the visits are the class set's";
}

TEST_F(Terms, AClassSetInBatchesIsHeldToTheModelAsOneWhereAllAre) {
  auto options = flux() + data() + class_set() +
                 "--num_epochs 2 --batch_size 3 --lora_rank 2 --lora_target_modules to_q,to_v --learning_rate 1e-2 --class_target model ";
  auto alone = train(options, "alone"), all = train(options + "--drift_loss_weight 1e-30 ", "all");
  auto ahead = train(options + "--precompute_timesteps on ", "ahead");
  ASSERT_EQ(alone.size(), all.size());
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(alone[i]["loss"].get<double>() / all[i]["loss"].get<double>(), 1, tolerance(1e-4)) << i;
    EXPECT_NEAR(alone[i]["loss"].get<double>() / ahead[i]["loss"].get<double>(), 1, tolerance(1e-4)) << i;
  }
}

TEST_F(Terms, ACacheIsOfOneClassWord) {
  const auto terms = "--diff_output_preservation --diff_output_preservation_class cat ";
  auto made = run_burnish("train --task sft:data_process " + flux() + data() + "--trigger_word red " + terms +
                          option("output_path", folder / "cache"));
  ASSERT_EQ(made.exit_code, 0) << made.output;
  auto trained = [&](const std::string& word) {
    return run_burnish("train --task sft:train " + flux() + kTermLora +
                       "--max_steps 1 --overwrite --diff_output_preservation --diff_output_preservation_class " + word +
                       option("dataset_base_path", folder / "cache") + option("output_path", folder / "run"));
  };
  EXPECT_EQ(trained("cat ").exit_code, 0);
  auto other = trained("dog ");
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_THAT(other.output, HasSubstr("with another diff_output_preservation_class than this run has"));
}

TEST_F(Terms, RefuseWhatTheyCannotHonour) {
  expect_refused("--diff_output_preservation --trigger_word sks ", 2, "name it in diff_output_preservation_class");
  expect_refused("--diff_output_preservation --diff_output_preservation_class cat ", 2, "name it in trigger_word");
  expect_refused("--diff_output_preservation_class cat ", 2, "diff_output_preservation");
  expect_refused("--masked_prior_preservation_weight 1 ", 2, "set masked_loss to column or alpha");
  expect_refused("--class_target model ", 2, "name one in class_metadata_path");
  expect_refused("--training_cfg_scale 3 --training_cfg_scale_max 2 ", 2, "is below training_cfg_scale");
  expect_refused("--training_cfg_zero ", 2, "training_cfg_scale");
  expect_refused("--task dpo --drift_loss_weight 1 ", 2, "task sft");
}

TEST_F(Terms, ATriggerWordInsideAnotherWordIsTold) {
  std::ofstream metadata(folder / "words.csv");
  metadata << "image,prompt\n";
  for (int i = 0; i < 3; ++i)
    metadata << (kGolden / "pictures").string() << "/" << i << ".png," << (i == 0 ? "a masks" : "a sks tree") << "\n";
  metadata.close();
  auto words = flux() + option("dataset_metadata_path", folder / "words.csv") + kTermLora + "--max_steps 1 ";
  train(words + kClass, "words");
  EXPECT_THAT(output, HasSubstr("1 sample has no trigger word as a word of its own in the caption"));
  train(words, "without");
  EXPECT_THAT(output, testing::Not(HasSubstr("trigger word as a word")));
}

TEST_F(Terms, ThePlanCountsTheirPasses) {
  auto passes = [&](const std::string& options) {
    auto out = run_burnish("plan --graph --max_steps 4 " + kTermLora + flux() + data() + options);
    EXPECT_EQ(out.exit_code, 0) << out.output;
    return out.output;
  };
  EXPECT_THAT(passes(kClass), HasSubstr("dit.body 3 (2 with gradients)"));
  EXPECT_THAT(passes(kClass + "--drift_loss_weight 1 "), HasSubstr("dit.body 4 (2 with gradients)"));
  EXPECT_THAT(passes("--drift_loss_weight 1 "), HasSubstr("dit.body 2 (1 with gradients)"));
  EXPECT_THAT(passes("--training_cfg_scale 3 "), HasSubstr("dit.body 2 (1 with gradients)"));
  EXPECT_THAT(passes(kBlank + "--training_cfg_scale 3 "), HasSubstr("dit.body 3 (2 with gradients)")) << "which share a pass";
  EXPECT_THAT(passes(kBlank + "--training_cfg_scale 3 --training_cfg_negative_prompt blurry "), HasSubstr("dit.body 4 (2 with gradients)"))
      << "which share none";
}

namespace {

class TermsOf : public testing::TestWithParam<SmallFamily> {};

}  // namespace

TEST_P(TermsOf, AFamilyBeginAtNothingAndAreThoseOfItsSamples) {
  Scratch folder;
  auto run = [&](const std::string& name, const std::string& batches) {
    auto out =
        run_burnish("train " + GetParam().model() + GetParam().data() + batches +
                    "--trigger_word red --diff_output_preservation --diff_output_preservation_class blue --blank_prompt_preservation "
                    "--drift_loss_weight 0.5 --training_cfg_scale 2 --lora_rank 2 --learning_rate 1e-2 --max_steps 2 " +
                    option("output_path", folder / name));
    EXPECT_EQ(out.exit_code, 0) << out.output;
    return read_log(folder / name);
  };
  auto together = run("together", "--batch_size 2 "), apart = run("apart", "--batch_size 1 --global_batch_size 2 ");
  ASSERT_EQ(together.size(), 2u);
  ASSERT_EQ(apart.size(), 2u);
  for (const char* term : {"class_preservation_loss", "blank_preservation_loss", "drift_loss"}) {
    EXPECT_LE(together[0][term].get<double>(), kDevice.is_cpu() ? 0 : 1e-12) << term;
    ASSERT_GT(together[1][term].get<double>(), 0) << term;
    EXPECT_NEAR(apart[1][term].get<double>() / together[1][term].get<double>(), 1, 1e-3) << term;
  }
  EXPECT_NEAR(apart[1]["loss"].get<double>() / together[1]["loss"].get<double>(), 1, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Families, TermsOf, testing::ValuesIn(small_families()), [](const auto& info) { return info.param.name; });
