// Frames that LTX-2 is given beside the noise, beside diffusers and peft (tests/golden/make_ltx2_given.py): a reference clip, as IC-LoRAs
// read one, and the last frame.
#include <gmock/gmock.h>

#include "data/clip.h"
#include "tests/integration/families/ltx2.h"
#include "tests/integration/model_run.h"
#include "tests/integration/parity.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kGiven = golden_path("ltx2_given"), kClips = golden_path("ltx2_clips");
const std::string kReference = "--extra_inputs in_context_videos,in_context_downsample_factor ";
const std::string kLora = "--lora_checkpoint " + quoted(kLtx2 / "lora.safetensors") + " ";

std::string given_data(const fs::path& metadata = kGiven / "reference.csv") {
  return "--dataset_metadata_path " + quoted(metadata) + " " + kLtx2Size + "--num_frames 9 ";
}

class Ltx2Given : public BadInput {
 protected:
  /// Clips of two rows, with whole paths, each beside the other.
  fs::path metadata(const std::vector<std::string>& scales, const std::vector<std::string>& rates = {"", ""}) const {
    nlohmann::json rows;
    for (size_t i = 0; i < 2; ++i)
      rows.push_back({{"video", (kClips / (std::to_string(i) + ".webp")).string()},
                      {"prompt", "a cat"},
                      {"in_context_videos", {(kClips / (std::to_string(1 - i) + ".webp")).string()}},
                      {"in_context_downsample_factor", scales[i]},
                      {"frame_rate", rates[i]}});
    return write("metadata.json", rows.dump());
  }
  std::string train_command(const fs::path& rows, const std::string& options) const {
    return "train " + ltx2_model() + given_data(rows) + "--overwrite --lora_rank 4 --max_steps 2 " + options + " --output_path " +
           quoted(out());
  }
  static void refused(const std::string& command, int exit_code, const std::vector<std::string>& words) {
    expect_one_error(run_burnish(command, "BURNISH_LOG=error"), exit_code, words);
  }
  std::vector<double> losses() const {
    std::vector<double> all;
    for (auto& line : read_log(out())) all.push_back(line["loss"]);
    return all;
  }
  at::Tensor drawn(const std::string& options) const {
    run_ok("sample " + ltx2_model() + kLtx2Size + "--num_frames 9 --prompt cat --seed 3 --num_inference_steps 2 " + options +
           " --save_latents " + quoted(at("latents.safetensors")) + " --output_path " + quoted(at("drawn")));
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").clone();
  }
};

}  // namespace

TEST(Ltx2GivenParity, AReferenceClip) { test::expect_steps(kGiven, "reference", ltx2_model() + given_data() + kLora + kReference, 2e-6); }
TEST(Ltx2GivenParity, AReferenceClipCheckpointed) {
  test::expect_steps(kGiven, "reference", ltx2_model() + given_data() + kLora + kReference + "--use_gradient_checkpointing", 2e-6);
}
TEST(Ltx2GivenParity, FirstAndLastFrame) {
  test::expect_steps(kGiven, "frames", ltx2_model() + given_data(kClips / "metadata.csv") + kLora + "--extra_inputs input_image,end_image ",
                     2e-6);
}

// A reference is half as large unless rows say otherwise, and rows of another size stand in another batch.
TEST_F(Ltx2Given, ReferencesMayBeOfSeveralSizes) {
  run_ok(train_command(metadata({"2", "2"}), "--extra_inputs in_context_videos --batch_size 2"));
  const auto unsaid = losses();
  run_ok(train_command(metadata({"2", "2"}), kReference + "--batch_size 2"));
  EXPECT_EQ(losses(), unsaid);
  run_ok(train_command(metadata({"1", "2"}), kReference + "--batch_size 2"));
  EXPECT_NE(losses(), unsaid);
  refused(train_command(metadata({"1.5", "2"}), kReference), 3, {"in_context_downsample_factor is 1.5"});
  refused(train_command(metadata({"8", "8"}), kReference), 2, {"less than one latent"});
}

TEST_F(Ltx2Given, RowsMayHaveRatesOfTheirOwn) {
  const std::string rates = "--extra_inputs in_context_videos,frame_rate ";
  run_ok("cache " + ltx2_model() + given_data(metadata({"", ""}, {"24", "23"})) + rates + "--cache_path " + quoted(at("cache")));
  const auto list = nlohmann::json::parse(read_file(at("cache/samples.json")))["samples"];
  EXPECT_EQ(list[0]["frame_rate"], 24.0);
  EXPECT_EQ(list[1]["frame_rate"], 23.0);
  run_ok("train --task sft:train " + ltx2_model() + "--dataset_base_path " + quoted(at("cache")) + " " + rates +
         "--batch_size 2 --lora_rank 4 --max_steps 2 --output_path " + quoted(out()));
  EXPECT_EQ(losses().size(), 2u);
  auto outcome =
      run_burnish("cache " + ltx2_model() + given_data(metadata({"", ""}, {"24", "fast"})) + rates + "--cache_path " + quoted(at("other")));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("the frame_rate is fast"));
}

TEST_F(Ltx2Given, DrawingsSeeThemToo) {
  const auto clip = [](int number) { return quoted(kClips / (std::to_string(number) + ".webp")); };
  const auto plain = drawn(""), one = drawn("--in_context_videos " + clip(0)), other = drawn("--in_context_videos " + clip(1)),
             large = drawn("--in_context_videos " + clip(0) + " --in_context_downsample_factor 1");
  for (const auto& different : {plain, other, large}) EXPECT_GT(relative_error(one, different), 1e-4);
  const auto first = "--reference " + quoted(kGolden / "pictures/0.png") + " ";
  const auto without = drawn(first), with = drawn(first + "--end_image " + quoted(kGolden / "pictures/1.png"));
  EXPECT_LE(relative_error(with.select(2, 0), without.select(2, 0)), tolerance(1e-5)) << "the first is the given one";
  EXPECT_GT(relative_error(with.select(2, 1), without.select(2, 1)), 1e-4);
}

// A clip that begins with 9 frames of another goes on from them.
TEST_F(Ltx2Given, ABeginningMayHaveSeveralFrames) {
  const auto clip = [](int number) { return quoted(kClips / (std::to_string(number) + ".webp")); };
  const std::string long_clip = "sample " + ltx2_model() + kLtx2Size + "--prompt cat --num_inference_steps 2 --num_frames 17 --seed ";
  auto of = [&](const std::string& more) {
    run_ok(long_clip + more + " --save_latents " + quoted(at("latents.safetensors")) + " --output_path " + quoted(at("drawn")));
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").clone();
  };
  const auto given = " --given_frames 9 --reference ";
  const auto one = of("3" + std::string(given) + clip(0)), other = of("4" + std::string(given) + clip(0)),
             first = of("3 --reference " + quoted(kGolden / "pictures/0.png"));
  EXPECT_LE(relative_error(one.narrow(2, 0, 2), other.narrow(2, 0, 2)), tolerance(1e-5)) << "two latents are the given ones";
  EXPECT_GT(relative_error(one.select(2, 2), other.select(2, 2)), 1e-2);
  EXPECT_GT(relative_error(one.select(2, 1), first.select(2, 1)), 1e-2);
  refused(long_clip + "3 --given_frames 17 --reference " + clip(0) + " --output_path " + quoted(out()), 2,
          {"the first 17 frames are given"});
  refused(train_command(kClips / "metadata.csv", "--extra_inputs input_image --given_frames 8"), 2, {"1 and 9"});
  refused(train_command(kClips / "metadata.csv", "--extra_inputs input_image --given_frames 9"), 2, {"given_frames 9", "this one has 9"});
}

TEST_F(Ltx2Given, APlanCountsAReference) {
  auto bytes_of_step = [&](const std::string& options) {
    const auto command = "plan --json " + ltx2_model() + "--height 64 --width 64 --num_frames 17 --lora_rank 4 --max_steps 2 ";
    const auto plan = nlohmann::json::parse(run_burnish(command + options, "BURNISH_LOG=error").output);
    int64_t bytes = 0;
    for (const auto& stage : plan.at("stages")) {
      for (const auto& [kind, of_kind] : stage.at("peak").items()) bytes += stage.at("name") == "step" ? of_kind.get<int64_t>() : 0;
    }
    return bytes;
  };
  EXPECT_GT(bytes_of_step(kReference), bytes_of_step(""));
}

TEST_F(Ltx2Given, WhatGoesWithOtherColumnsIsRefusedAlone) {
  refused(train_command(kClips / "metadata.csv", "--extra_inputs end_image"), 2, {"end_image", "input_image"});
  refused(train_command(metadata({"2", "2"}), "--extra_inputs in_context_downsample_factor"), 2,
          {"in_context_downsample_factor", "in_context_videos"});
  const auto two = write("two.json", nlohmann::json({{{"video", (kClips / "0.webp").string()},
                                                      {"prompt", "a cat"},
                                                      {"in_context_videos", {(kClips / "1.webp").string(), (kClips / "2.webp").string()}}}})
                                         .dump());
  const auto outcome = run_burnish(train_command(two, "--extra_inputs in_context_videos"));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("names 2 files, and one is read of it"));
}
