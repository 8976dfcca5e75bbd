// Step1X-Edit in the whole program: beside DiffSynth-Studio (tests/golden/make_step1x.py), and in all ways of running it.
#include <gmock/gmock.h>

#include "tests/golden.h"
#include "tests/integration/families/flux_extras.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"
#include "tests/places.h"

namespace burnish::step1x_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kStart = fs::path(test::kCheckout) / "tests/golden/diffsynth";
const std::string kStep1xModel = "--model " + quoted(kStep1x / "qwen") + " --model " + quoted(kStep1x / "step1x.safetensors") +
                                 " --model " + quoted(kGolden / "model/vae/diffusion_pytorch_model.safetensors") + " --dtype fp32 ";
const std::string kReads = "--extra_inputs step1x_reference_image ";
const std::string kStep1xLora = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_q,to_v --max_steps 4 ";

class Step1xRun : public BadInput {
 protected:
  static std::string data() { return "--dataset_metadata_path " + quoted(kStep1x / "metadata.json") + " "; }
  std::string train(const std::string& options, const std::string& to) const {
    return run_ok("train " + kStep1xModel + data() + options + "--output_path " + quoted(at(to)));
  }
  std::vector<std::string> logged_steps(const std::string& name) const { return test::logged_steps(at(name)); }
};

}  // namespace

TEST_F(Step1xRun, TrainsAsInDiffSynthStudio) {
  train(kReads + "--lora_checkpoint " + quoted(kStart / "start.safetensors") + " --replay " + quoted(kStart / "replay.safetensors") +
            " --max_steps 3 --learning_rate 1e-3 --use_gradient_checkpointing ",
        "run");
  auto expected = io::SafetensorsFile::open(kStep1x / "expected.safetensors")->tensor("loss");
  auto log = read_log(at("run"));
  ASSERT_EQ(std::ssize(log), expected.numel());
  for (int64_t i = 0; i < expected.numel(); ++i) {
    auto loss = expected[i].item<double>();
    EXPECT_NEAR(log[static_cast<size_t>(i)]["loss"].get<double>(), loss, tolerance(1e-5) * loss) << i;
  }
}

TEST_F(Step1xRun, GivesTheSameLossesInAllWaysOfRunning) {
  train(kReads + kStep1xLora + "--precompute none --precompute_timesteps off ", "live");
  train(kReads + kStep1xLora, "kept");
  train(kReads + kStep1xLora + "--precompute_timesteps on ", "ahead");
  train(kReads + "--task sft:data_process ", "cache");
  run_ok("train " + kStep1xModel + kReads + kStep1xLora + "--task sft:train --dataset_base_path " + quoted(at("cache")) +
         " --output_path " + quoted(at("split")));
  for (const char* other : {"kept", "ahead", "split"}) EXPECT_EQ(logged_steps("live"), logged_steps(other)) << other;
}

TEST_F(Step1xRun, DrawsByAReferencePicture) {
  auto draw = [&](const std::string& reference, const std::string& name) {
    run_ok("sample " + kStep1xModel +
           "--prompt 'a red \"cat\"' --seed 3 --height 48 --width 64 --num_inference_steps 2 --cfg_scale 2 --save_latents " +
           quoted(at(name)) + " --output_path " + quoted(at("pictures")) + " --reference " + quoted(kGolden / "pictures" / reference));
    return io::SafetensorsFile::open(at(name))->tensor("latents").clone();
  };
  auto first = draw("0.png", "first.safetensors"), again = draw("0.png", "again.safetensors"), other = draw("1.png", "other.safetensors");
  EXPECT_TRUE(at::equal(first, again));
  EXPECT_FALSE(at::equal(first, other));
}

TEST_F(Step1xRun, ReadsOneReferencePicture) {
  refused(2, train_with(kStep1xModel + data(), kStep1xLora),
          {"Step1X-Edit reads a picture beside the prompt", "--extra_inputs step1x_reference_image"});
  refused(2, train_with(kStep1xModel + data(), kStep1xLora + "--extra_inputs kontext_images"), {"those of 'step1x_reference_image'"});
  nlohmann::json rows{{{"image", (kGolden / "pictures/0.png").string()}, {"prompt", "a"}, {"step1x_reference_image", ""}},
                      {{"image", (kGolden / "pictures/0.png").string()},
                       {"prompt", "a"},
                       {"step1x_reference_image", (kGolden / "pictures/1.png").string()}}};
  auto without = "--dataset_metadata_path " + quoted(write("rows.json", rows.dump())) + " ";
  refused(3, train_with(kStep1xModel + without, kReads + kStep1xLora), {"Step1X-Edit reads one reference picture", "one has 0"});
  EXPECT_THAT(run_ok("inspect " + quoted(kStep1x / "step1x.safetensors")), HasSubstr("Step1X-Edit connector"));
}

}  // namespace burnish::step1x_test
