// LoRAs at other strengths in some blocks, drawn, inspected, and with blocks left out in turn.
#include <gmock/gmock.h>

#include <cmath>

#include "base/number.h"
#include "data/image.h"
#include "tests/golden.h"
#include "tests/integration/program.h"

using namespace burnish;
using namespace burnish::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string kLora = (kGolden / "lora.safetensors").string();

class StrengthByBlock : public testing::Test {
 protected:
  Outcome sample(const std::string& options, const std::string& name) {
    return run_burnish("sample " + golden_model() +
                       "--dtype fp32 --prompt 'a red circle' --seed 5 --num_inference_steps 2 --height 48 --width 64 " + options +
                       option("output_path", folder / name));
  }
  at::Tensor drawn(const std::string& options, const std::string& name, const std::string& number = "0000") {
    auto outcome = sample(options, name);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return data::decode_image(folder / name / (number + ".png"));
  }
  Scratch folder;
};

}  // namespace

TEST_F(StrengthByBlock, DrawsAsTheFileThatConvertWrites) {
  const auto some = kLora + ":0.8:single_blocks=0,.*to_q=2", written = (folder / "some.safetensors").string();
  auto outcome =
      run_burnish("convert " + quoted(fs::path(some)) + " " + quoted(fs::path(written)) + " --model " + quoted(kGolden / "model"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const auto by_name = drawn(option("lora", some), "named");
  EXPECT_TRUE(at::equal(by_name, drawn(option("lora", written), "written")));
  EXPECT_FALSE(at::equal(by_name, drawn(option("lora", kLora + ":0.8"), "whole")));
  outcome = sample(option("lora", kLora + ":0.8:singel_blocks=0"), "misspelled");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("'singel_blocks' fits nothing that it adapts"));
}

TEST_F(StrengthByBlock, PicturesWithoutAGroupOfBlocksAreThoseWithItAtZero) {
  auto outcome = sample(option("lora", kLora + ":3") + "--without_blocks 2 ", "groups");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  auto of_groups = [&](const char* name) { return data::decode_image(folder / "groups" / name); };
  const auto whole = of_groups("0000.png");
  EXPECT_TRUE(at::equal(whole, drawn(option("lora", kLora + ":3"), "whole")));
  const auto row = of_groups("row-0000.png");
  ASSERT_EQ(row.size(1), 3 * 64);
  for (int group : {1, 2}) {
    const auto without = of_groups(group == 1 ? "0001.png" : "0002.png");
    EXPECT_TRUE(at::equal(row.slice(0, row.size(0) - 48).slice(1, 64 * group, 64 * (group + 1)), without));
    const auto differ = std::sqrt((without.to(at::kDouble) - whole.to(at::kDouble)).square().mean().item<double>());
    EXPECT_GT(differ, 0);
    EXPECT_THAT(outcome.output, HasSubstr(fmt::format("pictures differ by {:.2f} of 255", differ)));
  }
  outcome = sample(option("lora", kLora) + "--without_blocks 99 ", "many");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("without_blocks 99 is more than the"));
}

TEST_F(StrengthByBlock, IsChosenByWhatInspectSays) {
  auto outcome = run_burnish("inspect --by_block " + quoted(fs::path(kLora)) + " --model " + quoted(kGolden / "model"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("dit.transformer_blocks.0"));
  outcome = run_burnish("inspect --by_block --json " + quoted(fs::path(kLora)) + " --model " + quoted(kGolden / "model"));
  const auto said = nlohmann::json::parse(outcome.output);
  double share = 0;
  for (const auto& block : said["blocks"]) share += block["share"].get<double>();
  EXPECT_NEAR(share, 1, 1e-9);
  outcome = run_burnish("inspect --by_block " + quoted(fs::path(kLora)));
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("do not tell which model it is for"), Not(HasSubstr("License"))))
      << "published models are looked at, and their licences bind nobody yet";
  outcome = run_burnish("inspect --by_block " + quoted(kGolden / "model"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("is none"));
}
