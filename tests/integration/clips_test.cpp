// Training on clips, in the whole program: a small Wan on a folder of videos, animations and pictures.
#include <gmock/gmock.h>

#include "tests/integration/model_run.h"

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
