// InfiniteYou beside DiffSynth-Studio (tests/golden/make_infinite_you.py), on faces that ArcFace has read before.
#include "tests/golden.h"
#include "tests/integration/families/flux_extras.h"
#include "tests/integration/refused.h"
#include "tests/places.h"

namespace burnish::infinite_you_test {
using namespace burnish::test;

namespace {

const fs::path kFirst = fs::path(test::kCheckout) / "tests/golden/diffsynth";
const std::string kFaceInputs = "--extra_inputs controlnet_image,infinityou_id_image,infinityou_guidance ";

class InfiniteYou : public BadInput {
 protected:
  InfiniteYou() { copy_face_control_net(at("controlnet")); }

  std::string model() const {
    return golden_model() + "--model " + quoted(kFaces / "image_proj_model.bin") + " --model " + quoted(at("controlnet")) + " ";
  }
  static std::string data() { return "--dataset_metadata_path " + quoted(kFaces / "metadata.json") + " "; }
  void expect_losses(const std::string& options, const std::string& name) const {
    auto out = run_burnish("train " + model() + data() + kFaceInputs + options + " --replay " + quoted(kFirst / "replay.safetensors") +
                           " --max_steps 3 --learning_rate 1e-3 --output_path " + quoted(at(name)));
    ASSERT_EQ(out.exit_code, 0) << out.output;
    auto expected = io::SafetensorsFile::open(kFaces / "expected.safetensors")->tensor(name);
    auto log = read_log(at(name));
    ASSERT_EQ(std::ssize(log), expected.numel());
    for (int64_t i = 0; i < expected.numel(); ++i) {
      auto loss = expected[i].item<double>();
      EXPECT_NEAR(log[static_cast<size_t>(i)]["loss"].get<double>(), loss, tolerance(1e-5) * loss) << name << i;
    }
  }
};

}  // namespace

TEST_F(InfiniteYou, TrainsALoraAsInDiffSynthStudio) { expect_losses("--lora_checkpoint " + quoted(kFirst / "start.safetensors"), "loss"); }

TEST_F(InfiniteYou, TrainsProjectorAndControlNetAsInDiffSynthStudio) {
  expect_losses("--trainable_models controlnet,image_proj_model --use_gradient_checkpointing", "both.loss");
  auto saved = io::SafetensorsFile::open(at("both.loss") / "step-3.image_proj_model.safetensors");
  EXPECT_TRUE(saved->tensors().contains("image_proj.latents"));
}

TEST_F(InfiniteYou, TakesFacesThatWereReadBefore) {
  auto rows = [&](const std::string& face) {
    nlohmann::json row{{{"image", (kGolden / "pictures/0.png").string()},
                        {"prompt", "a"},
                        {"controlnet_image", (kGolden / "pictures/1.png").string()},
                        {"infinityou_id_image", face},
                        {"infinityou_guidance", 1}}};
    return "--dataset_metadata_path " + quoted(write("rows.json", row.dump())) + " ";
  };
  auto with = [&](const std::string& face) { return train_with(model() + rows(face), kFaceInputs); };
  refused(3, with((kGolden / "pictures/0.png").string()),
          {"'infinityou_id_image' names", "a safetensors file with one tensor was expected"});
  refused(3, with((kFaces / "no.safetensors").string()), {"no.safetensors does not exist"});
  refused(3, with(at("controlnet/diffusion_pytorch_model.safetensors").string()), {"tensors, and one was expected"});
  io::save_safetensors(at("short.safetensors"), {{"face", at::ones({100})}});
  refused(3, with(at("short.safetensors").string()), {"holds 100 numbers of a face, and 512 were expected"});
}

}  // namespace burnish::infinite_you_test
