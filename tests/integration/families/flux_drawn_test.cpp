// Pictures drawn with extra inputs: FLUX.1's beside diffusers' pipelines (tests/golden/make_flux_drawn.py), and in all ways of giving them.
#include <gmock/gmock.h>

#include "tests/integration/families/flux_extras.h"
#include "tests/integration/families/qwen_image.h"
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"

namespace burnish::flux_drawn_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kDrawn = golden_path("flux_drawn");
const std::string kTwoPrompts = "--prompt 'red apple' --prompt 'tree of the north' --batch_size 2 ";
const std::string kControlled = "--model " + quoted(kExtras / "controlnet") + " --controlnet_processor_id depth ";
const std::string kEdges = "--controlnet_image " + quoted(kGolden / "pictures/1.png") + " ";

class FluxDrawn : public BadInput {
 protected:
  at::Tensor latents(const std::string& options) const {
    auto file = at("latents.safetensors");
    run_ok("sample --height 48 --width 64 --num_inference_steps 2 --seed 5 --save_latents " + quoted(file) + " --output_path " +
           quoted(at("drawn")) + " " + options);
    return io::SafetensorsFile::open(file)->tensor("latents").clone();
  }
};

}  // namespace

TEST(FluxDrawnParity, UnderAControlNet) { expect_latents(kDrawn, "latents.control", golden_model() + kTwoPrompts + kControlled + kEdges); }

TEST(FluxDrawnParity, UnderAControlNetGuided) {
  expect_latents(kDrawn, "latents.control_cfg",
                 golden_model() + kTwoPrompts + kControlled + kEdges + "--cfg_scale 2.5 --negative_prompt cat ");
}

TEST_F(FluxDrawn, FilledAsInDiffusers) {
  widen_transformer(at("fill"), "fill.safetensors");
  expect_latents(kDrawn, "latents.fill",
                 "--model " + quoted(at("fill")) + " " + tokenizers() + "--dtype fp32 " + kTwoPrompts + "--flux_fill_image " +
                     quoted(kGolden / "pictures/1.png") + " --flux_fill_mask " + quoted(kExtras / "white_0.png"));
}

TEST(FluxDrawnParity, ByAPictureInPlaceOfAPrompt) {
  expect_latents(kDrawn, "latents.redux",
                 golden_model() + "--model " + quoted(kExtras / "redux.safetensors") + " --model " + quoted(kExtras / "siglip") + " " +
                     kTwoPrompts + "--flux_redux_image " + quoted(kExtras / "../references/a.png"));
}

TEST_F(FluxDrawn, LinesOfAFileHaveTheirOwn) {
  const auto other = kGolden / "pictures/2.png";
  auto lines = write("prompts.txt", "red apple\nred apple --d 5 --controlnet_image " + other.string() + "\n");
  auto both = latents(golden_model() + kControlled + kEdges + "--prompts " + quoted(lines));
  auto first = latents(golden_model() + kControlled + kEdges + "--prompt 'red apple'");
  auto second = latents(golden_model() + kControlled + "--controlnet_image " + quoted(other) + " --prompt 'red apple'");
  EXPECT_TRUE(at::equal(both[0], first[0]));
  EXPECT_TRUE(at::allclose(both[1], second[0], 1e-5, 1e-6));
  EXPECT_FALSE(at::allclose(first, second, 1e-3, 1e-3));
}

TEST_F(FluxDrawn, AllKindsOfInputsAreSeen) {
  auto with = [&](const std::string& model, const std::string& inputs) {
    auto plain = latents(golden_model() + "--prompt 'red apple' "),
         changed = latents(golden_model() + model + "--prompt 'red apple' " + inputs);
    EXPECT_FALSE(at::allclose(plain, changed, 1e-3, 1e-3)) << inputs;
  };
  with("--model " + quoted(kExtras / "value_controller.safetensors") + " ", "--value_controller_inputs 0.7 ");
  with("", "--eligen_entity_prompts cat --eligen_entity_prompts tree --eligen_entity_masks " + quoted(kExtras / "white_0.png") +
               " --eligen_entity_masks " + quoted(kExtras / "white_1.png"));
  with("--model " + quoted(kExtras / "ipadapter.bin") + " --model " + quoted(kExtras / "siglip") + " ",
       "--ipadapter_images " + quoted(kExtras / "../references/a.png"));
  with("--model " + quoted(kExtras / "lora_encoder.safetensors") + " ", "--lora_encoder_inputs " + quoted(kExtras / "lora_0.safetensors"));
  copy_face_control_net(at("face_control"));
  with("--model " + quoted(kFaces / "image_proj_model.bin") + " --model " + quoted(at("face_control")) + " ",
       kEdges + "--infinityou_guidance 1 --infinityou_id_image " + quoted(kFaces / "face_0.safetensors"));
}

TEST_F(FluxDrawn, QwenImageIsControlledToo) {
  const auto net = fs::path(golden_path("qwen_blockwise")) / "control.safetensors";
  auto controlled = [&](const std::string& picture) {
    return latents(qwen_image_model() + "--model " + quoted(net) + " --prompt 'red apple' --blockwise_controlnet_image " +
                   quoted(kGolden / "pictures" / picture));
  };
  auto first = controlled("1.png"), other = controlled("2.png"), plain = latents(qwen_image_model() + "--prompt 'red apple'");
  EXPECT_FALSE(at::allclose(first, other, 1e-3, 1e-3));
  EXPECT_FALSE(at::allclose(first, plain, 1e-3, 1e-3));
}

TEST_F(FluxDrawn, PreviewsTakeThem) {
  auto picture = [](const char* name) { return (kGolden / "pictures" / name).string(); };
  auto lines =
      write("prompts.txt", "red apple --d 3 --s 2 --controlnet_processor_id canny --controlnet_image " + picture("1.png") +
                               "\nred apple --d 3 --s 2 --controlnet_processor_id canny --controlnet_image " + picture("2.png") + "\n");
  auto how = "train " + golden_model() + "--model " + quoted(kExtras / "controlnet") + " --dataset_metadata_path " +
             quoted(kExtras / "metadata.json") +
             " --extra_inputs controlnet_image,controlnet_processor_id --trainable_models controlnet --learning_rate 1e-2 --max_steps 2 "
             "--preview_prompts ";
  run_ok(how + quoted(lines) + " --output_path " + quoted(at("run")));
  std::vector<std::string> pictures;
  for (const auto& file : files_below(at("run") / "samples")) {
    if (file.ends_with(".png")) pictures.push_back(read_file(at("run") / "samples" / file));
  }
  std::set<std::string> distinct(pictures.begin(), pictures.end());
  EXPECT_EQ(distinct.size(), 4u) << "two before and two after training, each under its own picture";
  refused(2, how + quoted(write("bare.txt", "red apple\n")) + " --output_path " + quoted(at("other")),
          {"the prompt 'red apple' has no controlnet_image", "--controlnet_image"});
}

TEST_F(FluxDrawn, WhatCannotBeReadIsRefused) {
  auto with = [&](const std::string& options) {
    return "sample --height 48 --width 64 --prompt a --output_path " + quoted(at("drawn")) + " " + options;
  };
  refused(2, with(golden_model() + kEdges), {"controlnet_image is for a ControlNet", "not among the files"});
  refused(2, with(golden_model() + "--model " + quoted(kExtras / "controlnet") + " " + kEdges), {"10 kinds of control"});
  refused(3, with(golden_model() + kControlled + "--controlnet_image " + quoted(at("none.png"))), {"none.png"});
  refused(3, with(golden_model() + "--model " + quoted(kExtras / "value_controller.safetensors") + " --value_controller_inputs bright"),
          {"a prompt has \"bright\" in the column 'value_controller_inputs'"});
  refused(3,
          "sample --output_path " + quoted(at("drawn")) + " " + golden_model() + "--prompts " +
              quoted(write("bad.txt", "a --controlnet_image\n")),
          {"bad.txt line 1", "--controlnet_image must have a value"});
}

}  // namespace burnish::flux_drawn_test
