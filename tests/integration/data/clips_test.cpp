// Training on clips, in the whole program: a small Wan on a folder of videos, animations and pictures.
#include <gmock/gmock.h>

#include "tests/integration/model_run.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;

namespace {

const std::string kModel = "--model '" + golden_path("wan_pipeline/model") + "' --dtype fp32 ";

class Clips : public BadInput {
 protected:
  /// A folder with these files of tests/golden, each with a caption.
  std::string folder(const std::string& name, const std::vector<std::string>& files) {
    fs::create_directories(at(name));
    for (const auto& file : files) {
      auto to = at(name) / fs::path(file).filename();
      fs::copy_file(golden_path(file), to);
      write(name + "/" + to.stem().string() + ".txt", "red apple");
    }
    return quoted(at(name)) + " ";
  }
  std::string train(const std::string& data, const std::string& options) {
    return "train " + kModel + "--height 48 --width 64 --lora_rank 2 --max_steps 3 --learning_rate 1e-3 --dataset_metadata_path " + data +
           options + " --output_path " + quoted(out());
  }
};

}  // namespace

TEST_F(Clips, ClipsAndPicturesTrainTogether) {
  auto data = folder("mixed", {"clips/base30.mp4", "clips/anim.webp", "data/rgba.png"});
  auto outcome = run_burnish(train(data, "--num_frames 9 --frame_rate 10 --max_steps 6"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  auto log = read_log(out());
  ASSERT_EQ(log.size(), 6);
  for (const auto& line : log) EXPECT_TRUE(std::isfinite(line["loss"].get<double>()));
}

TEST_F(Clips, ABatchIsOfClipsOfOneLength) {
  auto data = folder("two", {"clips/base30.mp4", "clips/ntsc.mp4"});
  auto outcome = run_burnish(train(data, "--num_frames 9 --batch_size 2"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_F(Clips, WhatTheyAreKeptAsDependsOnTheWindow) {
  auto data = folder("one", {"clips/base30.mp4"});
  auto cached = [&](const std::string& options) {
    auto outcome = run_burnish(train(data, "--num_frames 9 --cache_path " + quoted(at("cache")) + " " + options + " --overwrite"));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return files_below(at("cache")).size();
  };
  auto head = cached("");
  EXPECT_GT(cached("--frame_extraction middle"), head) << "other frames have entries of their own";
}

TEST_F(Clips, OffTheGridIsRefused) {
  auto data = folder("one", {"clips/base30.mp4"});
  expect_one_error(run_burnish(train(data, "--num_frames 10"), "BURNISH_LOG=error"), 2, {"num_frames is 10", "9 or 13"});
}

TEST_F(Clips, ATruncatedClipIsNamed) {
  auto data = folder("bad", {"clips/truncated.mp4"});
  expect_one_error(run_burnish(train(data, "--num_frames 9"), "BURNISH_LOG=error"), 3, {"truncated.mp4", "could be decoded"});
}

TEST_F(Clips, BatchesOfClipsAndOfPictures) {
  auto data = folder("mixed", {"clips/base30.mp4", "clips/ntsc.mp4", "data/rgba.png", "data/gray_16.png"});
  auto outcome = run_burnish(train(data, "--num_frames 9 --batch_size 2 --max_steps 4"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  auto log = read_log(out());
  ASSERT_EQ(log.size(), 4);
  for (const auto& line : log) EXPECT_TRUE(std::isfinite(line["loss"].get<double>()));
}

TEST_F(Clips, AMaskOfAClipIsInItsLoss) {
  auto loss = [&](const std::string& name, const std::string& mask, const std::string& options) {
    auto metadata = write(name + ".jsonl", R"({"video": "base30.mp4", "prompt": "red apple", "mask": ")" + mask + "\"}\n");
    auto outcome = run_burnish(train(quoted(metadata), " --dataset_base_path " + quoted(fs::path(golden_path("clips"))) +
                                                           " --num_frames 9 --frame_rate 10 --max_steps 1 --overwrite " + options));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return read_log(out()).at(0)["loss"].get<double>();
  };
  auto whole = loss("whole", "", ""), masked = loss("masked", "base.gif", "--masked_loss column");
  EXPECT_GT(masked, 0);
  EXPECT_LT(masked, whole) << "frames of a dark gray count for little";
}

TEST_F(Clips, DataLooksAtThem) {
  folder("clips/2_apple", {"clips/base30.mp4"});
  auto outcome = run_burnish("data " + quoted(at("clips")) + " --frames_step 4 --num_frames 9 --contact_sheet " + quoted(at("sheet.html")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, testing::HasSubstr("1 picture, 2 samples")) << "a folder's number counts for clips";
  EXPECT_THAT(outcome.output, testing::HasSubstr("base30.mp4: 40 frames, 30 a second, 1.33 s, 64x48 pixels\n"));
  EXPECT_THAT(read_file(at("sheet.html")), testing::HasSubstr("<figure class=\"strip\">"));
}

TEST_F(Clips, WithoutFfmpegOneSentenceSaysWhatToInstall) {
  fs::copy_file(test::kProgram, at("burnish"));
  auto run = [&](const std::string& clip) {
    return run_burnish(train(folder(fs::path(clip).stem(), {clip}), "--num_frames 9 --frame_rate 10"), "BURNISH_LOG=error",
                       at("burnish").string());
  };
  expect_one_error(run("clips/base30.mp4"), 3, {"base30.mp4", "is read and written by FFmpeg's libraries", "libavformat59"});
  EXPECT_EQ(run("clips/base.gif").exit_code, 0) << "animations need none of them";
}
