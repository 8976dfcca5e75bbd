// Frames that LTX-2 is given beside the noise, beside diffusers and peft (tests/golden/make_ltx2_given.py): a reference clip, as IC-LoRAs
// read one, and the last frame.
#include <gmock/gmock.h>

#include "data/clip.h"
#include "tests/integration/families/ltx2.h"
#include "tests/integration/model_run.h"
#include "tests/integration/parity.h"

namespace burnish::ltx2_given_test {
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
  static int64_t bytes_of_step(const std::string& options) {
    const auto command = "plan --json --alone " + ltx2_model() + "--lora_rank 4 --max_steps 2 ";
    const auto plan = nlohmann::json::parse(run_burnish(command + options, "BURNISH_LOG=error").output);
    int64_t bytes = 0;
    for (const auto& stage : plan.at("stages")) {
      for (const auto& [kind, of_kind] : stage.at("peak").items()) bytes += stage.at("name") == "step" ? of_kind.get<int64_t>() : 0;
    }
    return bytes;
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
TEST(Ltx2GivenParity, TwoReferenceClips) {
  test::expect_steps(kGiven, "references", ltx2_model() + given_data(kGiven / "references.csv") + kLora + kReference, 2e-6);
}
TEST(Ltx2GivenParity, FirstAndLastFrame) {
  test::expect_steps(kGiven, "frames", ltx2_model() + given_data(kClips / "metadata.csv") + kLora + "--extra_inputs input_image,end_image ",
                     2e-6);
}

TEST(Ltx2GivenParity, FramesWithinAClipAndTheLast) {
  test::expect_steps(
      kGiven, "keyframes",
      ltx2_model() + given_data(kClips / "metadata.csv") + kLora + "--extra_inputs keyframes,end_image --keyframe_positions 3,6 ", 2e-6);
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

// The end of a clip may be that of several frames, which are not put in place of what is drawn.
TEST_F(Ltx2Given, AnEndMayHaveSeveralFrames) {
  const auto clip = [](int number) { return quoted(kClips / (std::to_string(number) + ".webp")); };
  const std::string size = ltx2_model() + kLtx2Size + "--num_frames 17 ",
                    long_clip = "sample " + size + "--prompt cat --num_inference_steps 2 ";
  auto of = [&](const std::string& more) {
    run_ok(long_clip + "--seed 3 " + more + " --save_latents " + quoted(at("latents.safetensors")) + " --output_path " +
           quoted(at("drawn")) + " --format webp");
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").clone();
  };
  const auto plain = of(""), one = of("--given_last_frames 9 --end_image " + clip(0)),
             other = of("--given_last_frames 9 --end_image " + clip(1));
  EXPECT_GT(relative_error(one, plain), 1e-4);
  EXPECT_GT(relative_error(one, other), 1e-4);
  refused(long_clip + "--given_last_frames 17 --end_image " + clip(0) + " --output_path " + quoted(out()), 2,
          {"the first 17 frames are given, and 17 are drawn"});
  refused(long_clip + "--given_last_frames 9 --output_path " + quoted(out()), 2, {"given_last_frames", "end_image"});

  const auto rows = write("long.csv", "video,prompt\n" + (at("drawn") / "0000.webp").string() + ",a cat\n");
  const auto train = "train " + size + "--dataset_metadata_path " + quoted(rows) +
                     " --overwrite --lora_rank 4 --max_steps 2 --output_path " + quoted(out()) + " --extra_inputs end_image ";
  run_ok(train);
  const auto of_last = losses();
  run_ok(train + "--given_last_frames 9");
  EXPECT_NE(losses(), of_last);
  refused(train + "--given_last_frames 10", 2, {"given_last_frames is 10", "9 and 17"});
  refused(train + "--given_last_frames 17", 2, {"17 of them, and this one has 17"});
}

TEST_F(Ltx2Given, FramesWithinAClipAreThoseOfRowsOrItsOwn) {
  const auto picture = [](int number) { return kGolden / "pictures" / (std::to_string(number) + ".png"); };
  auto rows = [&](const std::vector<std::string>& pictures) {
    return write("rows.json",
                 nlohmann::json({{{"video", (kClips / "0.webp").string()}, {"prompt", "a cat"}, {"keyframes", pictures}}}).dump());
  };
  const std::string columns = "--extra_inputs keyframes --keyframe_positions 3,6 ";
  run_ok(train_command(rows({}), columns));
  const auto own = losses();
  refused(train_command(rows({picture(0).string()}), columns), 3, {"'keyframes' has 1 pictures", "2 frames"});
  for (const auto* positions : {"6,3", "0,4", "3,3", "3,x", "1.5"})
    refused(train_command(rows({}), "--extra_inputs keyframes --keyframe_positions " + std::string(positions)), 2,
            {"keyframe_positions is '"});
  refused(train_command(rows({}), "--extra_inputs keyframes --keyframe_positions 9"), 2, {"names the frame 9, and this clip has 9"});
  refused(train_command(rows({}), "--extra_inputs keyframes"), 2, {"keyframes and keyframe_positions go together"});
  refused(train_command(rows({}), "--keyframe_positions 3"), 2, {"keyframes and keyframe_positions go together"});

  const auto plain = drawn(""), one = drawn("--keyframe_positions 4 --keyframes " + quoted(picture(0))),
             other = drawn("--keyframe_positions 4 --keyframes " + quoted(picture(1))),
             elsewhere = drawn("--keyframe_positions 5 --keyframes " + quoted(picture(0))),
             two = drawn("--keyframe_positions 4,6 --keyframes " + quoted(picture(0)) + " --keyframes " + quoted(picture(1)));
  for (const auto& different : {plain, other, elsewhere, two}) EXPECT_GT(relative_error(one, different), 1e-5);
}

// At each step of a run that learns next to nothing the loss is that of a run that is always given frames, or of one that never is.
TEST_F(Ltx2Given, FramesMayBeGivenAtAShareOfVisits) {
  const std::string still = "--learning_rate 1e-12 --max_steps 12 --cache_path " + quoted(at("cache")) + " ";
  auto of = [&](const std::string& options) {
    run_ok(train_command(kClips / "metadata.csv", still + options));
    return losses();
  };
  const auto never = of("");
  for (const auto& [given, share] : {std::pair("--extra_inputs input_image ", "--given_frames_share 0.5"),
                                     {"--extra_inputs end_image ", "--given_last_frames_share 0.5"},
                                     {"--extra_inputs keyframes --keyframe_positions 3,6 ", "--keyframes_share 0.5"}}) {
    const auto always = of(given), some = of(std::string(given) + share);
    size_t num_given = 0;
    for (size_t i = 0; i < some.size(); ++i) {
      const bool is_given = std::abs(some[i] - always[i]) < std::abs(some[i] - never[i]);
      EXPECT_NEAR(some[i], is_given ? always[i] : never[i], 1e-6) << share << " at step " << i;
      num_given += is_given;
    }
    EXPECT_GT(num_given, 0u) << share;
    EXPECT_LT(num_given, some.size()) << share;
  }
  const auto both = of("--extra_inputs input_image,end_image --given_frames_share 0.5 --given_last_frames_share 0.5");
  EXPECT_EQ(of("--extra_inputs input_image,end_image --given_frames_share 0.5 --given_last_frames_share 0.5"), both);
  refused(train_command(kClips / "metadata.csv", "--extra_inputs end_image --given_frames_share 0.5"), 2,
          {"given_frames_share", "input_image"});
  refused(train_command(kClips / "metadata.csv", "--extra_inputs input_image --keyframes_share 0.5"), 2, {"keyframes_share", "none are"});
  refused(train_command(kClips / "metadata.csv", "--extra_inputs input_image --given_frames_share 0"), 2, {"given_frames_share is 0"});
  refused(train_command(kClips / "metadata.csv", "--extra_inputs input_image --given_frames_share 1.5"), 2, {"given_frames_share"});
}

// Draws go by the visit: a run that was interrupted is given frames at the visits at which it would have been.
TEST_F(Ltx2Given, ASharePersistsWhereARunGoesOn) {
  const auto rows = kClips / "metadata.csv";
  const std::string some =
      "--extra_inputs input_image,keyframes --keyframe_positions 4 --given_frames_share 0.4 --keyframes_share 0.6 "
      "--cache_path " +
      quoted(at("cache")) + " ";
  run_ok(train_command(rows, some + "--max_steps 8"));
  const auto whole = read_file(out() / "step-8.safetensors");
  const auto all = losses();
  run_ok(train_command(rows, some + "--max_steps 3"));
  const auto again = "train " + ltx2_model() + given_data(rows) + "--lora_rank 4 --resume --output_path " + quoted(out()) + " " + some;
  run_ok(again + "--max_steps 8");
  EXPECT_EQ(read_file(out() / "step-8.safetensors"), whole);
  EXPECT_EQ(losses(), all);
}

TEST_F(Ltx2Given, APlanOfAShareIsThatOfAllVisits) {
  const auto given = "--height 64 --width 64 --num_frames 17 --extra_inputs keyframes --keyframe_positions 3,6 ";
  EXPECT_EQ(bytes_of_step(std::string(given) + "--keyframes_share 0.1"), bytes_of_step(given));
}

TEST_F(Ltx2Given, SingleFramesMayGoThroughH264) {
  const auto picture = quoted(kGolden / "pictures/0.png");
  const std::string first = "--reference " + picture, last = "--end_image " + picture,
                    between = "--keyframe_positions 4 --keyframes " + picture;
  for (const auto& given : {first, last, between}) {
    const auto plain = drawn(given), fine = drawn(given + " --given_frame_crf 10"), coarse = drawn(given + " --given_frame_crf 45");
    EXPECT_GT(relative_error(coarse, plain), relative_error(fine, plain)) << given;
    EXPECT_GT(relative_error(fine, plain), 1e-6) << given;
  }
  refused(train_command(kClips / "metadata.csv", "--extra_inputs input_audio --given_frame_crf 33"), 2, {"given_frame_crf", "none are"});
  const std::string of_image = "--extra_inputs input_image --cache_path " + quoted(at("cache")) + " ";
  run_ok(train_command(kClips / "metadata.csv", of_image));
  const auto plain = losses();
  run_ok(train_command(kClips / "metadata.csv", of_image + "--given_frame_crf 33"));
  EXPECT_NE(losses(), plain) << "which the same cache does not mistake for each other";
  EXPECT_GT(bytes_of_step(given_data(kClips / "metadata.csv") + "--extra_inputs input_image --given_frame_crf 33 "), 0);
}

TEST_F(Ltx2Given, APlanCountsFramesWithinAClip) {
  auto bytes = [&](const std::string& options) { return bytes_of_step("--height 64 --width 64 --num_frames 17 " + options); };
  const auto none = bytes(""), two = bytes("--extra_inputs keyframes --keyframe_positions 3,6 "),
             nine = bytes("--extra_inputs end_image --given_last_frames 9 ");
  EXPECT_GT(two, none);
  EXPECT_GT(nine, none);
}

TEST_F(Ltx2Given, APlanCountsAReference) {
  const std::string of_size = "--height 64 --width 64 --num_frames 17 ";
  EXPECT_GT(bytes_of_step(of_size + kReference), bytes_of_step(of_size));
  auto of_rows = [&](const std::string& scale) { return bytes_of_step(given_data(metadata({scale, scale})) + kReference); };
  EXPECT_GT(of_rows("1"), of_rows("2")) << "the number that rows say";
}

TEST_F(Ltx2Given, WhatGoesWithOtherColumnsIsRefusedAlone) {
  refused(train_command(metadata({"2", "2"}), "--extra_inputs in_context_downsample_factor"), 2,
          {"in_context_downsample_factor", "in_context_videos"});
}

// Which of several clips comes first makes no difference: all have the places of the clip beside which they stand.
TEST_F(Ltx2Given, ReferencesMayBeSeveral) {
  auto rows = [&](const std::vector<std::string>& numbers, const std::string& of = "video") {
    auto files = nlohmann::json::array();
    const auto file = [&](const std::string& number) {
      return (of == "video" ? kClips / (number + ".webp") : kGolden / "pictures" / (number + ".png")).string();
    };
    for (const auto& number : numbers) files.push_back(file(number));
    return write("rows.json", nlohmann::json({{{of, file("0")}, {"prompt", "a cat"}, {"in_context_videos", files}}}).dump());
  };
  const std::string columns = "--extra_inputs in_context_videos --reference_downscale_factor 1 ";
  auto of_rows = [&](const std::vector<std::string>& numbers, const std::string& of = "video") {
    run_ok(train_command(rows(numbers, of), columns));
    return losses();
  };
  const auto one = of_rows({"1"}), both = of_rows({"1", "2"}), turned = of_rows({"2", "1"});
  EXPECT_GT(std::abs(one[0] - both[0]), 1e-5);
  EXPECT_NEAR(both[0], turned[0], tolerance(1e-5));
  EXPECT_NE(of_rows({"1", "2"}, "image"), of_rows({"1"}, "image"));

  const auto clip = [](int number) { return " --in_context_videos " + quoted(kClips / (std::to_string(number) + ".webp")); };
  EXPECT_GT(relative_error(drawn(clip(0) + clip(1)), drawn(clip(0))), 1e-5);
  EXPECT_LE(relative_error(drawn(clip(0) + clip(1)), drawn(clip(1) + clip(0))), tolerance(1e-5));
  auto planned = [&](const std::vector<std::string>& numbers) { return bytes_of_step(given_data(rows(numbers)) + columns); };
  EXPECT_GT(planned({"1", "2", "3"}), planned({"1"}));
}

TEST_F(Ltx2Given, AdaptersSayHowMuchSmallerTheySawReferences) {
  auto said = [&] { return io::SafetensorsFile::open(at("out/step-2.safetensors"))->metadata().at("reference_downscale_factor"); };
  run_ok(train_command(metadata({"2", "2"}), "--extra_inputs in_context_videos"));
  EXPECT_EQ(said(), "2");
  run_ok(train_command(metadata({"1", "2"}), kReference));
  EXPECT_FALSE(io::SafetensorsFile::open(at("out/step-2.safetensors"))->metadata().contains("reference_downscale_factor")) << "rows differ";
  run_ok(train_command(metadata({"1", "1"}), kReference));
  EXPECT_EQ(said(), "1");
  fs::copy(at("out/step-2.safetensors"), at("lora.safetensors"));

  const auto lora = "--lora " + quoted(at("lora.safetensors")) + " --in_context_videos " + quoted(kClips / "0.webp");
  const auto taken = drawn(lora);
  EXPECT_TRUE(at::equal(taken, drawn(lora + " --in_context_downsample_factor 1")));
  const auto half = drawn(lora + " --reference_downscale_factor 2");
  EXPECT_TRUE(at::equal(half, drawn(lora + " --in_context_downsample_factor 2")));
  EXPECT_GT(relative_error(half, taken), 1e-5);

  const auto again = "--extra_inputs in_context_videos --lora_checkpoint " + quoted(at("lora.safetensors"));
  EXPECT_THAT(run_ok(train_command(metadata({"", ""}), again)), HasSubstr("was trained with reference_downscale_factor 1"));
  EXPECT_EQ(said(), "1");
  run_ok(train_command(metadata({"", ""}), again + " --reference_downscale_factor 2"));
  EXPECT_EQ(said(), "2");
}

}  // namespace burnish::ltx2_given_test
