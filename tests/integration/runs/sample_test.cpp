// The verb sample: prompt files, and what Ctrl-C leaves.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "tests/integration/processes.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;

namespace {

class SampleVerb : public BadInput {
 protected:
  /// What is in `name` after drawing into it: each file's name and bytes.
  std::string drawn(const std::string& name, const std::string& options) const {
    auto outcome = run_burnish("sample " + golden_model() + options + " --output_path " + quoted(at(name)));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    std::string all;
    auto files = files_below(at(name));
    std::sort(files.begin(), files.end());
    for (const auto& file : files) all += file + read_file(at(name) / file);
    return all;
  }
};

}  // namespace

TEST_F(SampleVerb, FlagsInAPromptFileAreTheOptionsOfTheirLine) {
  auto file = write("prompts.txt", "\xEF\xBB\xBFtree --w 32 --h 48 --d 9 --s 3 --l 2.5 --n red apple\n\ncat\n");
  auto of_file = drawn("file", "--prompts " + quoted(file) + " --height 32 --width 32 --num_inference_steps 2 --seed 4 --batch_size 4");
  auto first =
      drawn("first", "--prompt tree --width 32 --height 48 --seed 9 --num_inference_steps 3 --cfg_scale 2.5 --negative_prompt 'red apple'");
  auto second = drawn("second", "--prompt cat --height 32 --width 32 --num_inference_steps 2 --seed 5");
  ASSERT_EQ(second.substr(0, 8), "0000.png");
  EXPECT_EQ(of_file, first + "0001.png" + second.substr(8));
}

TEST_F(SampleVerb, BlocksThatWaitElsewhereDrawTheSame) {
  auto with = [&](const std::string& name, const std::string& more) {
    return drawn(name, "--prompt cat --prompt tree --height 32 --width 32 --num_inference_steps 2 --seed 4 --num_threads 1 " + more);
  };
  auto lora = "--lora " + quoted(kGolden / "lora.safetensors") + " ";
  auto plain = with("plain", ""), merged = with("merged", lora);
  EXPECT_NE(plain, merged);
  EXPECT_EQ(with("some", "--blocks_to_swap 2"), plain);
  EXPECT_EQ(with("all", "--blocks_to_swap 3 --batch_size 2"), with("together", "--batch_size 2"));
  EXPECT_EQ(with("merged_some", lora + "--blocks_to_swap 2"), merged);
  EXPECT_EQ(with("fp32_disk", "--blocks_to_swap 3 --blocks_on_disk 2"), plain);
  EXPECT_EQ(with("disk", "--dtype bf16 --blocks_to_swap 3 --blocks_on_disk 2"), with("bf16", "--dtype bf16"));
  refused(2, sample("--blocks_to_swap 100"), {"blocks_to_swap 100 is more than the", "blocks that dit"});
  refused(2, sample("--blocks_to_swap 1 --blocks_on_disk 2"), {"blocks_on_disk 2 is more than blocks_to_swap 1"});
}

TEST_F(SampleVerb, StrengthsInAPromptFileAreThoseOfALoraByItself) {
  const std::string options = "--height 32 --width 32 --num_inference_steps 2 --num_threads 1 --seed 4 ";
  const auto of_denoiser = (kGolden / "lora.safetensors").string(), of_encoder = (kGolden / "encoder_lora.safetensors").string();
  auto lora = [](const std::string& text) { return "--lora " + quoted(fs::path(text)) + " "; };
  auto with = [&](const std::string& first, const std::string& second) { return lora(of_denoiser + first) + lora(of_encoder + second); };
  const auto all = options + with("", ":0.25") + "--prompts " +
                   quoted(write("prompts.txt", "cat --d 4 --am 1,0\ncat --d 4 --am 0\ncat --d 4 --am -0.5,2\ntree --d 4\n"));
  std::string alone;
  int number = 0;
  for (const auto& one : {"--prompt cat " + lora(of_denoiser), std::string("--prompt cat"), "--prompt cat " + with(":-0.5", ":2"),
                          "--prompt tree " + with("", ":0.25")}) {
    const auto picture = drawn("alone" + std::to_string(number), options + one);
    alone += "000" + std::to_string(number++) + picture.substr(4);
  }
  EXPECT_EQ(drawn("file", all), alone) << "to the bit, and in what the files say of themselves";
  EXPECT_EQ(drawn("paged", all + " --blocks_to_swap 2"), alone);
}

TEST_F(SampleVerb, RefusesWhatItsModelDoesNotRead) {
  refused(2, sample("--processor_path nowhere"), {"processor_path is not supported for this model; it has no vision tower"});
}

TEST_F(SampleVerb, RefusesWhatNoLineCanBe) {
  write("blank.txt", "# none yet\n\n");
  refused(3, "sample " + golden_model() + "--prompts " + quoted(at("blank.txt")), {"blank.txt holds no prompts; write one a line"});
  auto with = [&](const std::string& text) { return sample("--prompts " + quoted(write("prompts.txt", text))); };
  refused(3, with("cat\ntree --steps 4"), {"prompts.txt line 2: --steps is not known", "--s (steps)"});
  refused(3, with("cat --w wide"), {"line 1: --w must be a whole number of at least 1, not 'wide'"});
  refused(3, with("cat\xFF"), {"line 1 is not UTF-8"});
  refused(2, with("cat --w 50"), {"multiples of 16", "50"});
  refused(2, with("cat --w 32") + " --save_latents " + quoted(out() / "latents.safetensors"), {"save_latents keeps latents of one size"});
}

TEST_F(SampleVerb, WhatIsFinishedIsWrittenWhileFurtherPicturesAreDrawn) {
  // More than can be drawn in time.
  Running drawing(quoted(test::kProgram) + " sample " + golden_model() + "--height 16 --width 16 --num_images 1000000 --prompt cat " +
                      "--num_inference_steps 20 --output_path " + quoted(out()),
                  at("output"));
  EXPECT_TRUE(within(200, [&] { return drawing.has_ended() || fs::exists(out() / "0000.png"); }));
  EXPECT_FALSE(drawing.has_ended()) << drawing.output();
}

TEST_F(SampleVerb, CtrlCWritesWhatIsFinished) {
  // More than can be drawn in time.
  Running drawing("env BURNISH_LOG=error " + quoted(test::kProgram) + " sample " + golden_model() +
                      "--height 16 --width 16 --num_images 1000000 --num_inference_steps 20 --prompt cat --output_path " + quoted(out()) +
                      " --save_latents " + quoted(at("latents.safetensors")),
                  at("output"));
  EXPECT_TRUE(within(200, [&] { return drawing.has_ended() || fs::exists(out() / "0000.png"); })) << drawing.output();
  drawing.send(SIGINT);
  ASSERT_TRUE(drawing.ends_within(60)) << drawing.output();
  EXPECT_EQ(drawing.exit_code(), 130);
  const auto num_files = std::ssize(files_below(out()));
  EXPECT_THAT(drawing.output(), testing::HasSubstr("interrupted: drawing ends after this step"));
  EXPECT_THAT(drawing.output(), testing::EndsWith(fmt::format("[sample] interrupted; {} of 1000000 pictures were written to {}\n",
                                                              num_files, out().string())));
  EXPECT_TRUE(fs::exists(out() / fmt::format("{:04}.png", num_files - 1)));
  EXPECT_EQ(io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").size(0), num_files);
}
