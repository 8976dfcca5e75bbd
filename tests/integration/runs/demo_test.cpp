// What the demos ask for (examples/demo) of the small models in assets, with other data and in one step.
#include <gmock/gmock.h>

#include "tests/integration/model_run.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;

namespace {

class Demo : public BadInput {
 protected:
  /// A folder with this file of tests/golden and its caption.
  std::string data(const std::string& file) {
    fs::create_directories(at("data"));
    fs::copy_file(golden_path(file), at("data") / fs::path(file).filename());
    write("data/" + fs::path(file).stem().string() + ".txt", "fox face hopping");
    return quoted(at("data"));
  }
  Outcome train(const std::string& settings, const std::string& file, const std::string& options = "") {
    auto folder = data(file);
    return run_burnish("train --config " + quoted(fs::path(test::kCheckout) / "examples/demo" / settings) + " --dataset_metadata_path " +
                       folder + " --validation_metadata_path " + folder + " --max_steps 6 --batch_size 1 --output_path " + quoted(out()) +
                       options);
  }
};

}  // namespace

TEST_F(Demo, OfPictures) {
  auto outcome = train("pictures.toml", "data/rgba.png", " --preview_prompts " + quoted(write("prompts.txt", "a red apple\n")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(out() / "step-6.safetensors"));
}

TEST_F(Demo, OfClips) {
  auto outcome = train("video.toml", "clips/base30.mp4");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, testing::HasSubstr("of 1 clip, 1 step an epoch"));
  auto drawn =
      run_burnish("sample --run " + quoted(out()) + " --prompt 'fox face hopping' --num_frames 17 --height 64 --width 64 --cfg_scale 1.5" +
                  " --num_inference_steps 2 --output_path " + quoted(at("drawn")));
  ASSERT_EQ(drawn.exit_code, 0) << drawn.output;
  EXPECT_TRUE(fs::exists(at("drawn") / "0000.webp"));
}
