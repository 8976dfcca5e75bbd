// A run's config.toml holds what was asked for: what follows from it is worked out anew by whoever starts from the file.
#include <gmock/gmock.h>

#include <set>

#include "base/text.h"
#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

class ConfigToml : public BadInput {
 protected:
  Outcome ok(const std::string& arguments) const {
    auto outcome = run_burnish(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
    return outcome;
  }
  std::string to(const std::string& run) const { return " --output_path " + quoted(at(run)) + " "; }
  Outcome start(const std::string& run, const std::string& options) const {
    return ok("train " + golden_model() + golden_data() + "--learning_rate 1e-3 " + options + to(run));
  }
  /// Another run by the settings of one.
  Outcome again(const std::string& settings, const std::string& run, const std::string& options) const {
    return ok("train --config " + quoted(at(settings) / "config.toml") + to(run) + options);
  }
  std::string settings(const std::string& run) const { return read_file(at(run) / "config.toml"); }
  int64_t steps(const std::string& run) const { return std::ssize(read_log(at(run))); }
  std::string weights(const std::string& run, int64_t step) const {
    return read_file(at(run) / ("step-" + std::to_string(step) + ".safetensors"));
  }
  std::set<int64_t> ranks(const std::string& run, int64_t step) const {
    std::set<int64_t> ranks;
    auto file = io::SafetensorsFile::open(at(run) / ("step-" + std::to_string(step) + ".safetensors"));
    for (const auto& [name, info] : file->tensors()) {
      if (name.ends_with("lora_A.weight") || name.ends_with("lora_down.weight")) ranks.insert(info.shape[0]);
    }
    return ranks;
  }
};

}  // namespace

TEST_F(ConfigToml, EpochsAreCountedAnew) {
  start("one", "--lora_rank 4 --num_epochs 1");
  const auto n = steps("one");
  ASSERT_GT(n, 1);
  EXPECT_THAT(settings("one"), HasSubstr("\nmax_steps = 0  #"));
  EXPECT_EQ(records::read_status(at("one"))->steps, n) << "as the page shows them";
  again("one", "two", "--num_epochs 2");
  EXPECT_EQ(steps("two"), 2 * n);
  again("one", "fewer", "--gradient_accumulation_steps 2");
  EXPECT_EQ(steps("fewer"), (n + 1) / 2);
  again("one", "one", "--num_epochs 2 --resume");
  EXPECT_EQ(steps("one"), 2 * n);
  EXPECT_EQ(weights("one", 2 * n), weights("two", 2 * n));
}

TEST_F(ConfigToml, StepsThatWereAskedForStay) {
  start("run", "--lora_rank 4 --max_steps 2 --num_epochs 3");
  EXPECT_THAT(settings("run"), testing::AllOf(HasSubstr("\nmax_steps = 2  #"), HasSubstr("\nnum_epochs = 3  #")));
  again("run", "same", "");
  EXPECT_EQ(steps("same"), 2);
  EXPECT_EQ(weights("same", 2), weights("run", 2));
}

TEST_F(ConfigToml, OfAnEarlierVersionHoldsBoth) {
  start("run", "--lora_rank 4 --num_epochs 1");
  const auto n = steps("run");
  auto text = settings("run");
  auto place = text.find("\nmax_steps = 0");
  ASSERT_NE(place, text.npos);
  write("old/config.toml", text.replace(place, 14, "\nmax_steps = " + std::to_string(n)));
  EXPECT_THAT(again("old", "same", "").output, Not(HasSubstr("takes the place")));
  EXPECT_EQ(weights("same", n), weights("run", n));
  auto said = again("old", "two", "--num_epochs 2").output;
  EXPECT_THAT(said, HasSubstr("num_epochs 2 of the command line takes the place of max_steps " + std::to_string(n)));
  EXPECT_EQ(steps("two"), 2 * n);
  again("old", "both", "--num_epochs 2 --max_steps 1");
  EXPECT_EQ(steps("both"), 1);
}

TEST_F(ConfigToml, ALoraGoesOnWithALargerRank) {
  start("run", "--lora_rank 4 --lora_alpha 2 --max_steps 2");
  auto from = "--lora_checkpoint " + quoted(at("run/step-2.safetensors")) + " --max_steps 2 ";
  start("same", from);
  EXPECT_EQ(ranks("same", 2), std::set<int64_t>{4});
  for (int64_t rank : {8, 32}) {  // of which one is the default
    auto name = std::to_string(rank);
    auto said = start(name, from + "--lora_rank " + name).output;
    EXPECT_THAT(said, HasSubstr("padded from rank 4 to " + name + ": what they add stays, so alpha is " + std::to_string(rank / 2)));
    EXPECT_EQ(ranks(name, 2), std::set<int64_t>{rank});
    auto first = [&](const std::string& run) { return read_log(at(run))[0].at("loss").get<double>(); };
    EXPECT_NEAR(first(name), first("same"), 2e-6 * first("same")) << "nothing has changed yet";
    again(name, name + "-again", "");
    EXPECT_EQ(weights(name + "-again", 2), weights(name, 2));
  }
  again("8", "8", "--resume --max_steps 3");
  EXPECT_EQ(ranks("8", 3), std::set<int64_t>{8});
  EXPECT_THAT(run_burnish("train " + golden_model() + golden_data() + from + "--lora_rank 2" + to("none")).output,
              HasSubstr("burnish convert --lora_rank 2"));
}

TEST_F(ConfigToml, LokrOfALargeRankIsWhole) {
  start("run", "--lora_type lokr --lora_rank 100000 --max_steps 1");
  auto file = io::SafetensorsFile::open(at("run/step-1.safetensors"));
  for (const auto& [name, info] : file->tensors()) EXPECT_THAT(name, testing::ContainsRegex("lokr_w1$|lokr_w2$|alpha$"));
}

TEST_F(ConfigToml, TellsWhichModelALoraBesideItIsFor) {
  start("run", "--lora_rank 4 --max_steps 1");
  auto convert = [&](const fs::path& from) {
    return run_burnish("convert " + quoted(from) + " " + quoted(at("out.safetensors")) + " --lora_format comfyui --overwrite");
  };
  auto told = convert(at("run/step-1.safetensors"));
  EXPECT_EQ(told.exit_code, 0) << told.output;
  EXPECT_THAT(told.output, HasSubstr("which the run beside it trained"));
  fs::copy(at("run/step-1.safetensors"), at("alone.safetensors"));
  auto untold = convert(at("alone.safetensors"));
  EXPECT_EQ(untold.exit_code, 3);
  EXPECT_THAT(untold.output, testing::AllOf(HasSubstr("its metadata names FLUX.1"), HasSubstr("give --model")));
}
