// Several datasets, buckets and captions that change by visit, in whole runs: split, ahead, resumed.
#include <ATen/ops/full.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "data/image.h"
#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kTrainingOfDatasets = "--learning_rate 1e-3 --lora_rank 2 --lora_target_modules to_q,to_v --max_steps 6 ";

class Datasets : public BadInput {
 protected:
  Datasets() {
    for (int i = 0; i < 4; ++i) {
      auto name = (i < 3 ? "first/" : "second/") + std::to_string(i);
      write(name + ".txt", "red, round, shiny, on a table, number " + std::to_string(i));
      write(name + ".long", "a {big|small} thing");
      fs::copy(kGolden / ("pictures/" + std::to_string(i) + ".png"), at(name + ".png"));
    }
  }
  std::string config(const std::string& text) const { return option("dataset_config", write("data.toml", text)); }
  std::string ok(const std::string& arguments) {
    auto outcome = run_burnish(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
    return outcome.output;
  }
  std::string train(const std::string& options, const std::string& run) {
    return ok("train " + golden_model() + kTrainingOfDatasets + options + option("output_path", at(run)));
  }
  void expect_same_runs(const std::string& a, const std::string& b) const {
    EXPECT_EQ(logged_steps(at(a)), logged_steps(at(b)));
    EXPECT_TRUE(read_file(at(a + "/step-6.safetensors")) == read_file(at(b + "/step-6.safetensors"))) << a << " and " << b;
  }
};

const char* const kSeveral = R"(
[general]
shuffle_caption = true
keep_tokens = 1
resolution = [64, 48]

[[datasets]]
num_repeats = 2
  [[datasets.subsets]]
  image_dir = "first"
  flip_aug = true

[[datasets]]
image_dir = "second"
caption_extension = ".long,.txt=2"
enable_wildcard = true
caption_dropout_rate = 0.2
loss_weight = 0.5
resolution = ["64,48", "48"]
)";

}  // namespace

TEST_F(Datasets, RunsAreTheSameSplitAheadLiveAndResumed) {
  auto data = config(kSeveral) + "--batch_size 2 ";
  auto output = train(data + "--precompute_timesteps off ", "whole");
  EXPECT_THAT(output, HasSubstr("5 samples, 5 batches an epoch")) << "3 pictures twice, and 1 at two sizes: 6 + 1 and 1 visits";
  EXPECT_THAT(train(data + "--precompute_timesteps on ", "ahead"), HasSubstr("text_embedding"));
  expect_same_runs("whole", "ahead");
  ok("train --task sft:data_process " + golden_model() + data + option("output_path", at("cache")));
  train("--task sft:train --batch_size 2 --precompute_timesteps off " + option("dataset_base_path", at("cache")), "split");
  expect_same_runs("whole", "split");
  train(data + "--max_steps 3 ", "halves");
  train(data + "--resume ", "halves");
  expect_same_runs("whole", "halves");

  write("data.toml", std::string(kSeveral) + "caption_tag_dropout_rate = 0.1\n");
  auto refusal =
      run_burnish("train " + golden_model() + kTrainingOfDatasets + data + "--resume --max_steps 8 " + option("output_path", at("halves")));
  EXPECT_NE(refusal.exit_code, 0) << "a state is for the captions with which it was made";
}

TEST_F(Datasets, ARunSaysWhatItTrainsOn) {
  write("first/3.txt", "a b c d e f g h i j k l m n o p q r s t u v w x y z and so on, far beyond what an encoder reads");
  fs::copy(at("first/0.png"), at("first/3.png"));
  for (int i = 0; i < 10; ++i) {
    write(fmt::format("second/broken{}.txt", i), "nothing");
    write(fmt::format("second/broken{}.png", i), "no picture");
  }
  auto data = config(kSeveral) + "--on_bad_sample skip --gradient_accumulation_steps 2 ";
  auto output = train(data, "run");
  auto path = [&](const std::string& name) { return fs::canonical(at(name)).string(); };
  EXPECT_THAT(output, HasSubstr("6 samples, 10 batches an epoch, 6 steps; of 5 pictures, 5 steps an epoch\n"));
  EXPECT_THAT(output, HasSubstr("\n  " + path("first") + ": 4 samples, each 2 times an epoch\n"));
  EXPECT_THAT(output, HasSubstr("\n  " + path("second") + ": 1 sample, each once an epoch\n"));
  EXPECT_THAT(output, HasSubstr("\n  sizes: 64x48 (5), 48x48 (1)\n"));
  EXPECT_THAT(output, HasSubstr("20 of the samples cannot be used and are left out:\n"));
  EXPECT_THAT(output, HasSubstr("broken0.png is not a"));
  EXPECT_THAT(output, HasSubstr("  and 12 more, which `burnish data` lists\n"));
  EXPECT_THAT(output, testing::ContainsRegex("captions have more than the [0-9]+ tokens that text_encoder reads"));
  EXPECT_THAT(ok("train --task sft:data_process " + golden_model() + data + option("output_path", at("cache"))),
              HasSubstr("6 samples, of 5 pictures\n"));
  EXPECT_THAT(train("--task sft:train " + option("dataset_base_path", at("cache")), "split"),
              HasSubstr("\n  sizes: 64x48 (5), 48x48 (1)\n"));
}

TEST_F(Datasets, WorkersChangeNoResult) {
  auto data = config(kSeveral) + "--batch_size 2 --precompute_timesteps off ";
  for (const std::string how : {"all", "none"}) {
    train(data + "--precompute " + how + " --dataset_num_workers 0 ", how + "-alone");
    train(data + "--precompute " + how + " --dataset_num_workers 3 ", how + "-workers");
    expect_same_runs(how + "-alone", how + "-workers");
  }
  refused(2, train_with(golden_model() + data, "--dataset_num_workers -1"), {"dataset_num_workers must be at least 0"});
}

TEST_F(Datasets, CaptionsThatChangeByVisitAreNotCached) {
  auto folder = option("dataset_base_path", at("first")) + "--height 48 --width 64 ";
  auto fixed = ok("plan --graph " + golden_model() + folder + "--max_steps 6 ");
  auto varied = ok("plan --graph " + golden_model() + folder + "--max_steps 6 --shuffle_caption ");
  auto stage_of = [](const std::string& plan) {
    std::istringstream lines(plan);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("encode_prompt_t5") != line.npos) return line;
    }
    return plan;
  };
  EXPECT_THAT(stage_of(fixed), HasSubstr("text_embedding (D)"));
  EXPECT_THAT(stage_of(varied), HasSubstr("text_embedding (DT)"));
  train(folder, "fixed");
  train(folder + "--shuffle_caption ", "varied");
  EXPECT_NE(logged_steps(at("fixed")), logged_steps(at("varied")));
}

TEST_F(Datasets, PrefixAndEndingAreInTheCaptionThatIsCached) {
  auto folder = option("dataset_base_path", at("first")) + "--height 48 --width 64 ";
  ok("train --task sft:data_process " + golden_model() + folder + "--caption_extension .long,.txt --caption_prefix sks " +
     option("output_path", at("cache")));
  auto list = nlohmann::json::parse(read_file(at("cache/samples.json")));
  EXPECT_EQ(list["samples"][1]["prompt"], "sks a {big|small} thing");
  train("--task sft:train " + option("dataset_base_path", at("cache")), "run");
}

TEST_F(Datasets, BucketsAreTheSizesOfTheCache) {
  auto list_of = [&](const std::string& options) {
    fs::remove_all(at("cache"));
    ok("train --task sft:data_process " + golden_model() + option("dataset_base_path", at("first")) + options +
       option("output_path", at("cache")));
    std::set<std::pair<int64_t, int64_t>> sizes;
    const auto list = nlohmann::json::parse(read_file(at("cache/samples.json")));
    for (const auto& sample : list["samples"]) sizes.emplace(sample["width"], sample["height"]);
    return sizes;
  };
  using Sizes = std::set<std::pair<int64_t, int64_t>>;
  const std::string buckets = "--enable_bucket --resolution 160 --min_bucket_reso 64 --bucket_reso_steps 32 ";
  auto upscaled = list_of(buckets + "--bucket_no_upscale false "), own = list_of(buckets);
  for (auto [width, height] : upscaled) EXPECT_GE(width * height, 128 * 128);
  for (auto [width, height] : own) EXPECT_LE(width * height, 64 * 64);
  EXPECT_EQ(list_of("--resolution 64,32 "), (Sizes{{64, 32}}));
  EXPECT_EQ(list_of("--resolution 64 --resolution 32 "), (Sizes{{64, 64}, {32, 32}}));
}

TEST_F(Datasets, WhatContradictsItselfIsRefused) {
  auto refuses = [&](const std::string& toml, const std::vector<std::string>& words, const std::string& more = "") {
    refused(2, train_with(golden_model() + config(toml), more), words);
  };
  auto dataset = "[[datasets]]\nimage_dir = 'first'\n";
  refuses("", {"holds no [[datasets]]"});
  refuses("[[datasets]]\nnum_repeats = 2\n", {"names no data", "image_dir"});
  refuses(std::string("shuffle = true\n") + dataset, {"'shuffle' stands outside of [general]"});
  refuses(std::string(dataset) + "shufle_caption = true\n", {"'shufle_caption' is not known; did you mean 'shuffle_caption'?"});
  refuses(std::string(dataset) + "color_aug = true\n", {"color_aug", "not supported"});
  refuses(std::string(dataset) + "num_repeats = 0\n", {"num_repeats must be more than 0"});
  refuses(std::string(dataset) + "num_repeats = 1000000000000000000\n", {"num_repeats must be at most 1000000000000, not 1e+18"});
  refuses(std::string(dataset) + "is_reg = true\n", {"class sets (is_reg) alone"});
  refuses(std::string(dataset) + "enable_bucket = true\n", {"name it with resolution"});
  refuses(std::string(dataset) + "caption_extension = 'txt'\n", {"no ending like .txt"});
  refuses(std::string(dataset) + "resolution = 'large'\n", {"'large' is no side like 1024"});
  refuses(dataset, {"dataset_config names all data"}, golden_data());
  refuses(dataset, {"give one size and resolution another"}, "--height 48 --width 64 --resolution 64 ");
  refuses("datasets = 3\n", {"[[datasets]]"});
}

TEST_F(Datasets, DataLooksAtThemAndShowsThem) {
  fs::copy(at("first/0.png"), at("first/copy.png"));
  write("first/copy.txt", "red <b>again</b>");
  write("first/broken.png", "no picture");
  write("first/broken.txt", "nothing");
  auto output =
      ok("data '" + at("first").string() + "' --resolution 64,32 --batch_size 3 --contact_sheet '" + at("sheet.html").string() + "'");
  EXPECT_THAT(output, HasSubstr("4 pictures, 4 samples"));
  EXPECT_THAT(output, testing::ContainsRegex("64x32 +4 +4 +2 +2.00"));
  EXPECT_THAT(output, HasSubstr("1 sample cannot be used"));
  EXPECT_THAT(output, HasSubstr(at("first/0.png").string() + ", " + at("first/copy.png").string()));
  EXPECT_THAT(output, testing::ContainsRegex("3  round"));
  EXPECT_THAT(output, testing::Not(HasSubstr("tokens")));
  write("first/copy.txt", "a b c d e f g h i j k l m n o p q r s t u v w x y z and so on, far beyond what an encoder reads");
  EXPECT_THAT(ok("data '" + at("first").string() + "' --resolution 64,32 --model '" + (kGolden / "model").string() + "' " + tokenizers()),
              testing::ContainsRegex("tokens for text_encoder, which reads 24; 1 caption is cut"));
  auto page = read_file(at("sheet.html"));
  EXPECT_THAT(page, testing::AllOf(HasSubstr("<h2>64x32</h2>"), HasSubstr("data:image/webp;base64,"), HasSubstr("red &lt;b&gt;again")));
  EXPECT_EQ(page.find("http"), std::string::npos) << "it asks for nothing from elsewhere";
  refused(2, "data", {"name a folder of pictures"});
  refused(2, "data '" + at("first").string() + "' --enable_bucket", {"name it with resolution"});
  refused(3, "data '" + at("gone").string() + "'", {"gone"});
}

TEST_F(Datasets, DataSaysAsJsonWhatSettingsCutOut) {
  data::write_png(at("first/wide.png"), at::full({40, 200, 3}, 128, at::kByte));  // without a caption
  write("first/broken.png", "no picture");
  const auto model = fmt::format("model = ['{}']\ntokenizer_path = '{}'\ntokenizer_2_path = '{}'\n", (kGolden / "model").string(),
                                 (kAssets / "tokenizer").string(), (kAssets / "tokenizer_2").string());
  write("run.toml", model + "dataset_base_path = 'second'\nheight = 48\nwidth = 64\nbatch_size = 2\n");
  auto json_in = [](const std::string& output) {  // among what is said beside it
    std::istringstream from(output.substr(output.find('{')));
    nlohmann::json value;
    from >> value;
    return value;
  };
  const auto said = json_in(ok("data '" + at("first").string() + "' --json --settings " + quoted(at("run.toml"))));
  EXPECT_EQ(said["unusable"].size(), 1u);
  const auto& pictures = said["pictures"];
  const auto wide = std::ranges::find_if(pictures, [&](const auto& picture) { return picture["file"] == at("first/wide.png").string(); });
  ASSERT_NE(wide, pictures.end());
  EXPECT_EQ((*wide)["cuts"], nlohmann::json::parse(R"([{"width": 64, "height": 48, "frames": 1, "is_scaled_up": true,
                                                       "window": [73.33333333333333, 0.0, 53.333333333333336, 40.0]}])"));
  // Without a dataset of its own it is that of the settings.
  EXPECT_EQ(json_in(ok("data --json --settings " + quoted(at("run.toml"))))["pictures"][0]["file"], at("second/3.png").string());
  write("run.toml", model + "height = 48\n");
  const auto refused = run_burnish("data '" + at("first").string() + "' --json --settings " + quoted(at("run.toml")));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(json_in(refused.output)["problems"][0]["option"], "height");
}

TEST_F(Datasets, OneCaptionAndATriggerWordAreInWhatIsCached) {
  for (int i : {0, 1}) fs::remove(at("first/" + std::to_string(i) + ".txt"));
  write("first/2.txt", "a [trigger] on a table");
  auto folder = golden_model() + option("dataset_base_path", at("first")) + "--height 48 --width 64 ";
  refused(3, train_with(folder, ""), {"has no caption", "class_tokens", "trigger_word"});
  auto prompts = [&](const std::string& options) {
    fs::remove_all(at("cache"));
    ok("train --task sft:data_process " + options + option("output_path", at("cache")));
    std::vector<std::string> found;
    const auto list = nlohmann::json::parse(read_file(at("cache/samples.json")));
    for (const auto& sample : list["samples"]) found.push_back(sample["prompt"]);
    return found;
  };
  using Prompts = std::vector<std::string>;
  EXPECT_EQ(prompts(folder + "--class_tokens 'a bowl' --trigger_word sks "), (Prompts{"sks a bowl", "sks a bowl", "a sks on a table"}));
  train("--task sft:train " + option("dataset_base_path", at("cache")), "run");
  EXPECT_EQ(prompts(folder + "--trigger_word sks "), (Prompts{"sks", "sks", "a sks on a table"}));
  train("--task sft:train " + option("dataset_base_path", at("cache")), "run2");
  auto several = config(
      "[[datasets]]\nimage_dir = 'first'\nclass_tokens = 'a jar'\n[[datasets]]\nimage_dir = 'second'\ntrigger_word = ''\n"
      "[[datasets]]\nimage_dir = 'plain'\nis_reg = true\nclass_tokens = 'a thing'\n");
  fs::create_directory(at("plain"));
  fs::copy(at("second/3.png"), at("plain/a.png"));
  EXPECT_EQ(prompts(golden_model() + several + "--height 48 --width 64 --trigger_word sks "),
            (Prompts{"sks a jar", "sks a jar", "a sks on a table", "red, round, shiny, on a table, number 3", "a thing"}));
}

TEST_F(Datasets, AClassSetHasACaptionOfItsOwn) {
  fs::create_directories(at("reg/1_fruit"));
  fs::create_directories(at("plain"));
  for (const char* to : {"reg/1_fruit/a.png", "plain/a.png"}) fs::copy(at("second/3.png"), at(to));
  auto common = "train --task sft:data_process " + golden_model() + option("dataset_base_path", at("second")) +
                "--height 48 --width 64 --trigger_word sks --class_tokens 'sks apple' ";
  auto last_prompt = [&](const std::string& options) {
    fs::remove_all(at("cache"));
    ok(common + options + option("output_path", at("cache")));
    return nlohmann::json::parse(read_file(at("cache/samples.json")))["samples"].back()["prompt"].get<std::string>();
  };
  EXPECT_EQ(last_prompt(option("class_metadata_path", at("reg"))), "fruit");
  EXPECT_EQ(last_prompt(option("class_metadata_path", at("reg/1_fruit"))), "fruit");
  EXPECT_EQ(last_prompt(option("class_metadata_path", at("plain")) + "--class_prompt 'an apple' "), "an apple");
  refused(3, common + option("class_metadata_path", at("plain")) + option("output_path", at("other")), {"has no caption", "class_prompt"});
}

TEST_F(Datasets, FoldersThatAnotherSystemNamedAreFound) {
  const std::string apart = "cafe\xCC\x81", one = "caf\xC3\xA9";
  fs::create_directory(at(apart));
  fs::copy(at("second"), at(apart + "/second"));
  write(apart + "/m.csv", "image,prompt\nsecond\\3.png,a jar\n");
  EXPECT_THAT(
      ok("data " + config("[[datasets]]\nimage_dir = '.\\" + one + "\\second'\n[[datasets]]\nmetadata_file = '" + one + "/m.csv'\n")),
      HasSubstr("2 samples"));
}
