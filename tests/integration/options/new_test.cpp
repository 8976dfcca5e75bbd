// Settings of a first run: from options, and from what is answered on a terminal.
#include <gmock/gmock.h>

#include "tests/integration/on_terminal.h"
#include "tests/integration/refused.h"
#include "tests/places.h"
#include "train/options/check.h"
#include "train/options/fields.h"

using namespace burnish;
using namespace burnish::test;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

class New : public BadInput {
 protected:
  /// So many pictures in a folder, the first of them with these captions.
  fs::path pictures(int count, const std::vector<std::string>& captions, const std::string& name = "pictures") const {
    fs::create_directories(at(name));
    for (int i = 0; i < count; ++i) {
      const auto number = std::to_string(i);
      fs::copy_file(kGolden / "pictures" / (std::to_string(i % 4) + ".png"), at(name) / (number + ".png"),
                    fs::copy_options::overwrite_existing);
      if (i < std::ssize(captions)) write(name + "/" + number + ".txt", captions[static_cast<size_t>(i)]);
    }
    return at(name);
  }
  std::string answers(const std::string& more = "", const std::string& model = quoted(kAssets)) const {
    return "new --dataset " + quoted(at("pictures")) + " --model " + model + " --subject 'sks dog' --memory cpu --output " +
           quoted(at("run.toml")) + " " + more;
  }
  /// The settings as `burnish train` reads them, which it would take.
  train::TrainOptions settings(const std::string& name = "run.toml") const {
    train::TrainOptions options;
    config::Fields fields;
    train::fields(fields, options);
    config::read_toml(at(name).string(), fields);
    EXPECT_NO_THROW(train::check(options)) << read_file(at(name));
    return options;
  }
  Outcome made(const std::string& arguments, const std::string& before = "") const {
    auto outcome = run_burnish(arguments, before);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome;
  }
  bool nothing_written() const { return !fs::exists(at("run.toml")) && !fs::exists(at("run.prompts.txt")) && !fs::exists(at("runs")); }

  std::string program(const std::string& arguments = "") const {
    return "env -C " + quoted(at(".")) + " HF_HUB_CACHE=" + quoted(at("cache-of-hub")) + " " + quoted(test::kProgram) + " new " + arguments;
  }
};

}  // namespace

TEST_F(New, PicturesWithoutCaptionsBecomeARunThatTrains) {
  pictures(12, {});
  auto outcome = made(answers());
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("12 pictures"), HasSubstr("12 pictures have no caption"),
                                    HasSubstr("burnish train " + at("run.toml").string() + "\n")));
  auto o = settings();
  EXPECT_EQ(o.model.model, std::vector<std::string>{kAssets.string()});
  EXPECT_EQ(o.data.metadata_path, at("pictures").string());
  EXPECT_EQ(o.dataset.subset.visits.trigger_word, "sks dog");
  EXPECT_EQ(o.model.device, "cpu");
  EXPECT_EQ(o.adapter.rank, 16);
  EXPECT_EQ(o.step.learning_rate, 1e-4);
  EXPECT_EQ(o.course.max_steps, 1100);
  EXPECT_EQ(o.output.save.steps, 250);
  EXPECT_EQ(o.output.previews.every, 250);
  EXPECT_EQ(o.output.validation_steps, 0);
  EXPECT_EQ(o.output_path, at("runs/run").string());
  EXPECT_EQ(o.cache.path, at("cache").string());
  EXPECT_THAT(read_file(o.output.previews.prompts), AllOf(HasSubstr("\nsks dog --s 4 --d 1\n"), HasSubstr("\nsks dog on a beach")));
  made("train " + quoted(at("run.toml")) + " --max_steps 1");
  EXPECT_TRUE(fs::exists(at("runs/run/step-1.safetensors")));
  EXPECT_TRUE(fs::exists(at("runs/run/samples/step-000001/01.png")));
  made(answers("--overwrite"));
  EXPECT_EQ(settings().output_path, at("runs/run-2").string()) << "a run is not written over";
}

/// Every setting stands below a line that says what it is.
TEST_F(New, EverySettingIsExplained) {
  pictures(4, {});
  made(answers());
  std::istringstream lines(read_file(at("run.toml")));
  std::string before, line;
  int num_settings = 0;
  for (; std::getline(lines, line); before = line) {
    if (line.empty() || line[0] == '#') continue;
    ++num_settings;
    EXPECT_TRUE(before.starts_with("# ")) << line;
  }
  EXPECT_GE(num_settings, 12);
}

TEST_F(New, CaptionsThatSayAllNeedNoWords) {
  pictures(2, {"a dog on grass", "a dog in snow"});
  made(answers("--subject dog"));
  EXPECT_EQ(settings().dataset.subset.visits.trigger_word, "");
  EXPECT_THAT(read_file(at("run.prompts.txt")), HasSubstr("\na dog on grass --s 4"));
  made(answers("--subject 'sks dog' --overwrite"));
  EXPECT_EQ(settings().dataset.subset.visits.trigger_word, "sks dog");
  EXPECT_THAT(read_file(at("run.toml")), HasSubstr("put before 2 of 2 captions"));
  EXPECT_THAT(read_file(at("run.prompts.txt")), HasSubstr("\nsks dog a dog on grass --s 4"));
  made(answers("--subject '' --overwrite"));
  EXPECT_EQ(settings().dataset.subset.visits.trigger_word, "");
  EXPECT_THAT(read_file(at("run.prompts.txt")), AllOf(HasSubstr("\na dog in snow --s 4"), Not(HasSubstr("beach"))));
}

TEST_F(New, BrokenPicturesAreNamedAndLeftOut) {
  pictures(3, {});
  write("pictures/9.png", "no picture");
  EXPECT_THAT(made(answers()).output, AllOf(HasSubstr("1 sample cannot be used"), HasSubstr("9.png")));
  EXPECT_EQ(settings().data.on_bad_sample, "skip");
  pictures(3, {}, "good");
  made(answers("--overwrite --dataset " + quoted(at("good"))));
  EXPECT_EQ(settings().data.on_bad_sample, "stop");
}

/// By a published name the settings have its id, without anything fetched; and what does not fit as it is has options that make it fit.
TEST_F(New, APublishedModelIsPlannedByItsName) {
  pictures(2, {});
  made(answers("--memory 6", "sd15"), "HF_HUB_CACHE=" + quoted(at("cache-of-hub")));
  auto o = settings();
  EXPECT_EQ(o.model.model, std::vector<std::string>{"stable-diffusion-v1-5/stable-diffusion-v1-5"});
  EXPECT_EQ(o.dataset.subset.size.max_pixels, 512 * 512);
  EXPECT_EQ(o.model.device, "auto");
  EXPECT_EQ(o.plan.device_memory, "");
  EXPECT_THAT(read_file(at("run.prompts.txt")), HasSubstr(" --s 30 --l 7 --d 1\n"));
  EXPECT_THAT(read_file(at("run.toml")), HasSubstr("--device cuda --device_memory 6GB"));
}

TEST_F(New, WhatMakesARunFitIsAmongTheSettings) {
  pictures(4, {});
  const auto plan = "plan " + quoted(at("run.toml")) + " --device cuda --device_memory ";
  made(answers("--memory 1GB"));
  auto planned = [&](const std::string& memory) {
    auto output = made(plan + memory + " --json").output;  // behind lines of the log
    return nlohmann::json::parse(output.substr(output.find("\n{") + 1));
  };
  auto needs = planned("1GB");
  ASSERT_TRUE(needs.at("fits").get<bool>());
  const auto less = std::to_string(needs.at("bytes").get<int64_t>() / (1 << 20) - 4) + "MiB";
  made(answers("--overwrite --memory " + less));
  EXPECT_TRUE(planned(less).at("fits").get<bool>()) << read_file(at("run.toml"));
  EXPECT_THAT(read_file(at("run.toml")), HasSubstr("# To fit"));
  refused(4, answers("--overwrite --memory 1MiB"), {"does not fit", "smaller model", "1MiB"});
}

/// A run among its pictures would make previews into pictures of the dataset.
TEST_F(New, SettingsAmongThePicturesHaveTheirRunsBesideThem) {
  pictures(2, {});
  made(answers("--output " + quoted(at("pictures/dog.toml"))));
  auto o = settings("pictures/dog.toml");
  EXPECT_EQ(o.output_path, at("runs/dog").string());
  made("train " + quoted(at("pictures/dog.toml")) + " --max_steps 1");
}

TEST_F(New, EveryAnswerIsMissedWithoutATerminal) {
  refused(2, "new", {"without a terminal", "--dataset, --model, --subject, --memory, --output", "--yes"});
  refused(2, "new --yes", {"with --yes", "--dataset, --model"});
  refused(2, "new --dataset d --model m --subject s", {"--memory, --output"});
  refused(2, "new --dataset d --model m --subject '' --output run.toml", {"missing: --memory;"});
}

TEST_F(New, EveryWrongAnswerIsRefused) {
  pictures(2, {});
  fs::create_directories(at("empty"));
  refused(3, answers("--dataset " + quoted(at("nowhere"))), {"nothing called", "nowhere"});
  refused(3, answers("--dataset " + quoted(at("empty"))), {"empty"});
  refused(3, answers("", quoted(at("nowhere"))), {"does not exist"});
  refused(3, answers("", "me/mine"), {"'me/mine' is not on this machine", "name a published model"});
  refused(3, answers("", quoted(kAssets / "vae")), {"vae"});
  refused(2, answers("", quoted(kGolden / "model")), {"tokenizer is not beside", "--tokenizer_path"});
  refused(2, answers("--memory lots"), {"memory"});
  if (!at::hasCUDA()) refused(2, answers("--memory 16 --start"), {"start trains on this machine"});
  refused(2, answers("--subject ''"), {"2 pictures have no caption"});
  refused(2, answers("--subject 'dog --w 64'"), {"words for the subject"});
  refused(2, answers("--subject '# dog'"), {"words for the subject"});
  refused(2, answers("--output " + quoted(at("run.txt"))), {"must be the name of a .toml file"});
  EXPECT_TRUE(nothing_written());
}

TEST_F(New, WhatIsThereIsNotReplacedUnasked) {
  pictures(2, {});
  write("run.toml", "mine");
  refused(2, answers(), {"run.toml is there already", "--overwrite"});
  EXPECT_EQ(read_file(at("run.toml")), "mine");
  fs::rename(at("run.toml"), at("run.prompts.txt"));
  refused(2, answers(), {"run.prompts.txt is there already", "--overwrite"});
  EXPECT_FALSE(fs::exists(at("run.toml")));
  made(answers("--overwrite"));
  EXPECT_EQ(settings().course.max_steps, 600);
}

/// Wrong answers are told, and asked for again; models in the working folder and in the hub's cache are offered.
TEST_F(New, ATerminalIsAsked) {
  pictures(4, {});
  fs::create_directory_symlink(kAssets, at("tiny"));
  write("cache-of-hub/models--me--mine/refs/main", std::string(40, 'a'));
  fs::create_directories(at("cache-of-hub/models--me--mine/snapshots"));
  fs::create_directory_symlink(kAssets, at("cache-of-hub/models--me--mine/snapshots/" + std::string(40, 'a')));
  OnTerminal run(program());
  const auto answer = [&](const std::string& question, const std::string& text) {
    ASSERT_TRUE(run.shows(question)) << question << " is not in:\n" << run.shown();
    run.type(text + "\n");
  };
  answer("folder of pictures: ", "nowhere");
  ASSERT_TRUE(run.shows("nothing called 'nowhere'"));
  answer("folder of pictures: ", "'" + at("pictures").string() + "' ");
  ASSERT_TRUE(run.shows("4 pictures have no caption"));
  ASSERT_TRUE(run.shows("1  tiny (FLUX.1-schnell)")) << run.shown();
  ASSERT_TRUE(run.shows("2  me/mine (FLUX.1-schnell)")) << run.shown();
  answer("published name) [1]: ", "7");
  ASSERT_TRUE(run.shows("no number 7"));
  answer("published name) [1]: ", "");
  answer("words for what is to be learned", "");
  ASSERT_TRUE(run.shows("4 pictures have no caption"));
  answer("words for what is to be learned", "sks dog");
  if (!at::hasCUDA()) {
    answer("or cpu", "");
    ASSERT_TRUE(run.shows("no GPU whose memory could be asked"));
  }
  answer("or cpu", "cpu");
  ASSERT_TRUE(run.shows("planning"));
  ASSERT_TRUE(run.shows("it takes "));
  answer("[run.toml]: ", "run.txt");
  ASSERT_TRUE(run.shows("must be the name of a .toml file"));
  answer("[run.toml]: ", "");
  answer("start training", "maybe");
  ASSERT_TRUE(run.shows("the answer is y or n"));
  EXPECT_TRUE(nothing_written());
  answer("start training", "n");
  EXPECT_EQ(ended(run.wait()), "code 0") << run.shown();
  EXPECT_THAT(run.shown(), HasSubstr("burnish train run.toml"));
  EXPECT_THAT(read_file(at("run.toml")),
              AllOf(HasSubstr("model = [\"tiny\"]"), HasSubstr("output_path = \"runs/run\""), HasSubstr("\"cache\"")));
  EXPECT_EQ(settings().model.model, std::vector<std::string>{at("tiny").string()});
}

TEST_F(New, ATerminalIsAskedForWhatNoOptionSays) {
  pictures(2, {});
  write("run.toml", "mine");
  OnTerminal run(program("--dataset pictures --model nowhere --subject dog --memory cpu --output run.toml"));
  ASSERT_TRUE(run.shows("does not exist")) << run.shown();
  ASSERT_TRUE(run.shows("published name): ")) << run.shown();
  run.type(kAssets.string() + "\n");
  ASSERT_TRUE(run.shows("replace run.toml")) << run.shown();
  run.type("n\n");
  ASSERT_TRUE(run.shows("run.toml stays as it is")) << run.shown();
  ASSERT_TRUE(run.shows("file of settings to write: ")) << run.shown();
  run.type("other.toml\n");
  ASSERT_TRUE(run.shows("start training")) << run.shown();
  run.type("y\n");
  while (!fs::exists(at("runs/other/log.jsonl")) || read_log(at("runs/other")).size() < 2) run.show(std::chrono::milliseconds(50));
  run.type("\x03");
  EXPECT_EQ(ended(run.wait()), "code 130") << run.shown();
  EXPECT_TRUE(fs::exists(at("runs/other/state/state.safetensors")));
  EXPECT_EQ(read_file(at("run.toml")), "mine");
}

TEST_F(New, CtrlCAndCtrlDWriteNothing) {
  pictures(2, {});
  const std::string all = "--dataset pictures --subject dog --memory cpu --model " + quoted(kAssets);
  for (const char* key : {"\x03", "\x04"}) {
    for (const auto& [arguments, question] : std::vector<std::pair<std::string, std::string>>{
             {"", "folder of pictures: "}, {"--dataset pictures", "published name): "}, {all, "[run.toml]: "}}) {
      OnTerminal run(program(arguments));
      ASSERT_TRUE(run.shows(question)) << run.shown();
      run.type(key);
      EXPECT_EQ(ended(run.wait()), "code 130") << run.shown();
      EXPECT_THAT(run.shown(), HasSubstr("nothing was written"));
      EXPECT_TRUE(nothing_written());
    }
  }
  OnTerminal run(program(all));
  ASSERT_TRUE(run.shows("[run.toml]: "));
  run.hang_up();
  EXPECT_THAT(ended(run.wait()), AnyOf("code 130", "signal 1"));
  EXPECT_TRUE(nothing_written());
}
