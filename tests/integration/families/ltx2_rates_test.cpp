// Clips of other rates than 24 frames a second, whose places LTX-2 counts in seconds, beside diffusers and peft
// (tests/golden/make_ltx2_rates.py); and models that take no other rate than their own.
#include <gmock/gmock.h>

#include "data/clip.h"
#include "data/sound.h"
#include "tests/integration/families/ltx2.h"
#include "tests/integration/families/minimax_h3.h"
#include "tests/integration/model_run.h"
#include "tests/integration/parity.h"
#include "tests/integration/sound_drawn.h"

namespace burnish::ltx2_rates_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kRates = golden_path("ltx2_rates");
const std::string kHeard = "--extra_inputs input_audio ", kAtTwelve = "--frame_rate 12 ";

std::string rates_data() { return "--dataset_metadata_path " + quoted(kRates / "metadata.csv") + " " + kLtx2Size + "--num_frames 9 "; }

class Ltx2Rates : public BadInput {
 protected:
  std::string with_options(const std::string& options, const std::string& name) const {
    return ltx2_model() + rates_data() + "--lora_rank 4 --learning_rate 1e-3 --max_steps 3 " + options + " --output_path " +
           quoted(at(name));
  }
  static void refused(const std::string& command, int exit_code, const std::vector<std::string>& words) {
    expect_one_error(run_burnish(command, "BURNISH_LOG=error"), exit_code, words);
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> all;
    for (auto& line : read_log(at(name))) all.push_back(line["loss"]);
    return all;
  }
};

}  // namespace

TEST(Ltx2RatesParity, TrainsAtTheRateOfItsClips) {
  test::expect_steps(kRates, "sounding",
                     ltx2_model() + rates_data() + "--lora_checkpoint " + quoted(kLtx2 / "lora.safetensors") + " " + kHeard + kAtTwelve,
                     2e-6);
}

TEST_F(Ltx2Rates, ClipsAreDrawnAtTheRateThatTheyPlayAt) {
  expect_drawn_with_sound(at(""), kRates, ltx2_model() + kLtx2Size + kAtTwelve + "--num_frames 9 ");
  const auto clip = data::look_at_clip((at("drawn") / "0000.mp4").string());
  EXPECT_NEAR(static_cast<double>(clip.duration.num) / static_cast<double>(clip.duration.den), 0.75, 1e-3);
  EXPECT_NEAR(static_cast<double>(data::decode_sound(at("drawn") / "0000.mp4", {}, 16000, 2).size(1)), 12000, 1100);
}

// A slower clip is taken frame by frame, and its sound for as long; what is kept of it says how fast it was.
TEST_F(Ltx2Rates, ASlowerClipKeepsItsOwnRate) {
  const auto output = run_ok("train " + with_options(kHeard + "--seed 5", "own"));
  EXPECT_THAT(output, testing::Not(HasSubstr("move faster")));
  run_ok("train " + with_options(kHeard + "--seed 5 " + kAtTwelve, "asked"));
  run_ok("train --task sft:data_process " + with_options(kHeard, "cache"));
  const auto list = nlohmann::json::parse(read_file(at("cache/samples.json")));
  EXPECT_EQ(list["samples"][0]["frame_rate"], 12.0);
  run_ok("train --task sft:train " + ltx2_model() + "--dataset_base_path " + quoted(at("cache")) + " " + kHeard +
         "--seed 5 --lora_rank 4 --learning_rate 1e-3 --max_steps 3 --output_path " + quoted(at("kept")));
  const auto own = losses("own"), asked = losses("asked"), kept = losses("kept");
  ASSERT_EQ(own.size(), 3u);
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_NEAR(own[i], asked[i], 1e-2 * asked[i]) << "but for 3 ms of sound, which is not there at the end";
    EXPECT_NEAR(own[i], kept[i], tolerance(1e-6) * own[i]);
  }
}

TEST_F(Ltx2Rates, PreviewsAndPlansAreOfTheRateThatIsTrained) {
  const auto prompts = write("prompts.txt", "red apple --w 64 --h 32 --f 9 --s 2\n");
  run_ok("train " + with_options(kHeard + kAtTwelve + "--preview_steps 3 --preview_prompts " + quoted(prompts), "previewed"));
  const auto clip = data::look_at_clip((at("previewed") / "samples/step-000003/00.mp4").string());
  EXPECT_NEAR(static_cast<double>(clip.duration.num) / static_cast<double>(clip.duration.den), 0.75, 1e-3);
  EXPECT_THAT(run_ok("plan " + ltx2_model() + kLtx2Size + "--num_frames 9 --lora_rank 4 --max_steps 3 " + kHeard + kAtTwelve),
              HasSubstr("encode_sound"));
}

TEST_F(Ltx2Rates, AModelOfOneRateRefusesOthers) {
  const auto data = "--dataset_metadata_path " + quoted(kRates / "metadata.csv") + " " + kMiniMaxH3Size + "--num_frames 5 --lora_rank 4 " +
                    "--max_steps 1 --output_path " + quoted(out());
  refused("train " + minimax_h3_model() + data + " --frame_rate 12", 2,
          {"clips of this model have 24 frames a second", "frame_rate asks for 12"});
  refused("sample " + minimax_h3_model() + kMiniMaxH3Size + "--prompt cat --num_frames 5 --frame_rate 12 " +
              "--num_inference_steps 1 --output_path " + quoted(at("drawn")),
          2, {"clips of this model have 24 frames a second", "frame_rate asks for 12"});
  const auto slow = run_burnish("train " + minimax_h3_model() + data + " " + kHeard);
  EXPECT_EQ(slow.exit_code, 3);
  EXPECT_THAT(slow.output, HasSubstr("frames would be shown twice"));
}

}  // namespace burnish::ltx2_rates_test
