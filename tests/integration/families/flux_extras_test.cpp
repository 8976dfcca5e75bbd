// Extra inputs of FLUX.1 and the components that read them: beside DiffSynth-Studio, diffusers and transformers
// (tests/golden/make_flux_extras.py), and in all ways of running them.
#include "tests/integration/families/flux_extras.h"

#include <gmock/gmock.h>

#include "tests/golden.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"
#include "tests/places.h"

namespace burnish::flux_extras_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kDiffSynth = fs::path(test::kCheckout) / "tests/golden/diffsynth";
const std::string kControl = "controlnet_image,controlnet_processor_id";
const std::string kInpaint = "controlnet_image,controlnet_inpaint_mask";

std::string more_model(const std::string& name) { return "--model " + quoted(kExtras / name) + " "; }
const std::string kAdapter = more_model("ipadapter.bin") + more_model("siglip");
/// Everything that can be given together.
const std::string kAll = more_model("controlnet") + kAdapter + more_model("value_controller.safetensors") + "--extra_inputs " + kControl +
                         ",ipadapter_images,eligen_entity_prompts,eligen_entity_masks,value_controller_inputs ";

class FluxExtras : public BadInput {
 protected:
  static std::string data() { return "--dataset_metadata_path " + quoted(kExtras / "metadata.json") + " "; }
  std::string to(const std::string& name) const { return "--output_path " + quoted(at(name)) + " "; }
  std::string train(const std::string& more, const std::string& name) const {
    return run_ok("train " + golden_model() + data() + more + to(name));
  }

  /// The rows of kExtras with files where any run finds them.
  std::string absolute_data(size_t first = 0, size_t step = 1) const {
    auto rows = nlohmann::json::parse(read_file(kExtras / "metadata.json")), chosen = nlohmann::json::array();
    auto make_absolute = [](nlohmann::json& cell) {
      auto text = cell.is_string() ? cell.get<std::string>() : "";
      if (text.ends_with(".png") || text.ends_with(".safetensors")) cell = (kExtras / text).string();
    };
    for (size_t i = first; i < rows.size(); i += step) {
      for (auto& cell : rows[i]) {
        make_absolute(cell);
        if (!cell.is_array()) continue;
        for (auto& item : cell) make_absolute(item);
      }
      chosen.push_back(rows[i]);
    }
    return "--dataset_metadata_path " + quoted(write("rows.json", chosen.dump())) + " ";
  }

  /// The first losses of a run of the replay are those of `name`.
  void expect_losses(const std::string& model, const std::string& more, const std::string& name) const {
    SCOPED_TRACE(name);
    auto folder = at(name);
    run_ok("train " + model + absolute_data() + more + "--replay " + quoted(kDiffSynth / "replay.safetensors") +
           " --use_gradient_checkpointing " + "--max_steps 3 --learning_rate 1e-3 " + to(name));
    auto expected = io::SafetensorsFile::open(kExtras / "expected.safetensors")->tensor(name);
    auto log = read_log(folder);
    ASSERT_EQ(std::ssize(log), expected.numel());
    for (int64_t i = 0; i < expected.numel(); ++i) {
      auto value = expected[i].item<double>();
      EXPECT_NEAR(log[static_cast<size_t>(i)]["loss"].get<double>(), value, 2e-5 * value) << i;
    }
  }
  void expect_lora(const std::string& more, const std::string& columns, const std::string& name) const {
    expect_losses(golden_model() + more, kStart + "--extra_inputs " + columns + " ", name);
  }
  void expect_whole(const std::string& more, const std::string& columns, const std::string& component, const std::string& name) const {
    expect_losses(golden_model() + more, "--trainable_models " + component + " --extra_inputs " + columns + " ", name);
  }
  std::string model_at(const std::string& name) const { return "--model " + quoted(at(name)) + " " + tokenizers() + "--dtype fp32 "; }

  const std::string kStart = "--lora_checkpoint " + quoted(kDiffSynth / "start.safetensors") + " ";
  const std::string kLora = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_q,to_v ";
};

}  // namespace

TEST_F(FluxExtras, ControlNetsTrainAsInDiffSynthStudio) {
  expect_lora(more_model("controlnet"), kControl, "union.loss");
  expect_whole(more_model("controlnet"), kControl, "controlnet", "union.whole.loss");
  expect_lora(more_model("inpaint"), kInpaint, "inpaint.loss");
  expect_whole(more_model("inpaint"), kInpaint, "controlnet", "inpaint.whole.loss");
}

TEST_F(FluxExtras, AnIpAdapterTrainsAsInDiffSynthStudio) {
  expect_lora(kAdapter, "ipadapter_images", "ipadapter.loss");
  expect_whole(kAdapter, "ipadapter_images", "ipadapter", "ipadapter.whole.loss");
}

TEST_F(FluxExtras, AValueControllerTrainsAsInDiffSynthStudio) {
  expect_lora(more_model("value_controller.safetensors"), "value_controller_inputs", "value.loss");
  expect_whole(more_model("value_controller.safetensors"), "value_controller_inputs", "value_controller", "value.whole.loss");
}

TEST_F(FluxExtras, PromptsForPartsTrainAsInDiffSynthStudio) { expect_lora("", "eligen_entity_prompts,eligen_entity_masks", "eligen.loss"); }

TEST_F(FluxExtras, APictureInPlaceOfAPromptTrainsAsInDiffusers) {
  expect_lora(more_model("redux.safetensors") + more_model("siglip"), "flux_redux_image", "redux.loss");
}

TEST_F(FluxExtras, AnEncoderOfLorasTrainsAsInDiffSynthStudio) {
  expect_lora(more_model("lora_encoder.safetensors"), "lora_encoder_inputs", "lora_encoder.loss");
  expect_whole(more_model("lora_encoder.safetensors"), "lora_encoder_inputs", "lora_encoder", "lora_encoder.whole.loss");
}

TEST_F(FluxExtras, WhatAnEncodedLoraHasIsKeptByWhatIsInItsFile) {
  auto row = nlohmann::json{
      {"image", (kGolden / "pictures/0.png").string()}, {"prompt", "a"}, {"lora_encoder_inputs", at("lora.safetensors").string()}};
  auto how = "train " + golden_model() + more_model("lora_encoder.safetensors") + "--extra_inputs lora_encoder_inputs --max_steps 2 " +
             kLora + "--dataset_metadata_path " + quoted(write("row.json", nlohmann::json::array({row}).dump())) + " ";
  auto kept = "--cache_path " + quoted(at("cache")) + " ";
  fs::copy(kExtras / "lora_0.safetensors", at("lora.safetensors"));
  run_ok(how + kept + to("first"));
  fs::copy(kExtras / "lora_1.safetensors", at("lora.safetensors"), fs::copy_options::overwrite_existing);
  run_ok(how + kept + to("second"));
  run_ok(how + "--precompute none " + to("live"));
  EXPECT_NE(logged_steps(at("first")), logged_steps(at("second")));
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("second")));
}

TEST_F(FluxExtras, FurtherChannelsTrainAsInDiffSynthStudioAndDiffusers) {
  widen_transformer(at("fill"), "fill.safetensors");
  expect_losses(model_at("fill"), kStart + "--extra_inputs flux_fill_image,flux_fill_mask ", "fill.loss");
  auto encoders = [&](const char* name) { return "--model " + quoted(at("fill") / name) + " "; };
  run_ok("train " + encoders("vae") + encoders("text_encoder") + encoders("text_encoder_2") + tokenizers() + "--dtype fp32 " + data() +
         "--task sft:data_process --extra_inputs flux_fill_image,flux_fill_mask " + to("cache"));
  widen_transformer(at("flex"), "flex.safetensors");
  expect_losses(model_at("flex"), kStart + "--extra_inputs flex_inpaint_image,flex_inpaint_mask,flex_control_image ", "flex.loss");
  expect_losses(model_at("flex"), kStart, "flex.plain.loss");
}

TEST_F(FluxExtras, GiveTheSameLossesInAllWaysOfRunning) {
  auto how = kAll + kLora + "--max_steps 4 ";
  train(how + "--precompute none --precompute_timesteps off ", "live");
  train(how + "--use_gradient_checkpointing ", "kept");
  train(how + "--precompute_timesteps on ", "ahead");
  for (const char* other : {"kept", "ahead"}) EXPECT_EQ(logged_steps(at("live")), logged_steps(at(other))) << other;

  train(kAll + "--task sft:data_process ", "cache");
  run_ok("train " + golden_model() + how + "--task sft:train --dataset_base_path " + quoted(at("cache")) + " " + to("split"));
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("split")));

  train(kLora + "--max_steps 4 ", "unseen");
  EXPECT_NE(logged_steps(at("live")), logged_steps(at("unseen"))) << "without extra_inputs they are not read";
}

TEST_F(FluxExtras, ABatchIsItsSamples) {
  auto data = absolute_data(0, 2);  // rows of which the further pictures are of equal sizes
  auto how = "train " + golden_model() + data + kAll + kLora + "--max_steps 2 ";
  run_ok(how + "--batch_size 2 " + to("batch"));
  run_ok(how + "--gradient_accumulation_steps 2 " + to("singles"));
  expect_same_losses(at("batch"), at("singles"));
}

TEST_F(FluxExtras, WhatTrainsWholeIsSavedAsItsReadersLoadIt) {
  train(more_model("controlnet") + "--extra_inputs " + kControl + " --trainable_models controlnet --max_steps 1 ", "run");
  auto saved = io::SafetensorsFile::open(at("run") / "step-1.controlnet.safetensors");
  auto first = io::SafetensorsFile::open(kExtras / "controlnet/diffusion_pytorch_model.safetensors");
  std::vector<std::string> names, expected;
  for (const auto& [name, info] : saved->tensors()) names.push_back(name);
  for (const auto& [name, info] : first->tensors()) expected.push_back(name);
  EXPECT_EQ(names, expected);
  train("--model " + quoted(at("run") / "step-1.controlnet.safetensors") + " --extra_inputs " + kControl +
            " --trainable_models controlnet --max_steps 1 ",
        "again");
}

TEST_F(FluxExtras, AreCountedByThePlan) {
  auto plan = run_ok("plan " + golden_model() + data() + kAll + kLora + "--max_steps 2 ");
  for (const char* component : {"controlnet", "ipadapter", "value_controller", "image_encoder"}) EXPECT_THAT(plan, HasSubstr(component));
}

TEST_F(FluxExtras, ThatCannotBeReadAreRefused) {
  auto with = [&](const std::string& more) { return train_with(golden_model() + data(), more); };
  refused(2, with("--extra_inputs controlnet_image"), {"'controlnet_image' is for a ControlNet", "not among the files"});
  refused(2, with(more_model("controlnet") + "--extra_inputs controlnet_image"), {"10 kinds of control", "controlnet_processor_id"});
  refused(2, with(more_model("inpaint") + "--extra_inputs controlnet_image"), {"inpaints", "controlnet_inpaint_mask"});
  refused(2, with("--extra_inputs flux_fill_image,flux_fill_mask"), {"FLUX.1 Fill"});
  refused(2, with("--extra_inputs flux_fill_image"), {"flux_fill_image, which is read together with flux_fill_mask"});
  refused(2, with("--extra_inputs eligen_entity_masks,eligen_entity_prompts,kontext_images"), {"FLUX.1 Kontext and Step1X-Edit alone"});
  refused(2, with(more_model("inpaint") + "--extra_inputs infinityou_id_image," + kInpaint),
          {"'infinityou_id_image' is for an encoder of faces (InfiniteYou)", "not among the files"});
  refused(2, with("--extra_inputs infinityou_id_image"), {"infinityou_id_image, which is read together with controlnet_image"});
  refused(2, with(more_model("controlnet") + "--random_crop --extra_inputs " + kControl), {"random_crop"});
  auto prompts = write("prompts.txt", "cat\n");
  refused(2, with(more_model("inpaint") + "--preview_prompts " + quoted(prompts) + " --extra_inputs " + kInpaint),
          {"the prompt 'cat' has no controlnet_image"});
  auto picture = (kGolden / "pictures/0.png").string();
  auto rows = [&](const std::string& cells) {
    return "--dataset_metadata_path " + quoted(write("rows.json", R"([{"image": ")" + picture + R"(", "prompt": "a", )" + cells + "}]")) +
           " ";
  };
  refused(3,
          train_with(golden_model() + rows(R"("other": 1)"),
                     more_model("value_controller.safetensors") + "--extra_inputs value_controller_inputs"),
          {"row 0 has nothing in the column 'value_controller_inputs'"});
  refused(3,
          train_with(golden_model() + rows(R"("value_controller_inputs": "bright")"),
                     more_model("value_controller.safetensors") + "--extra_inputs value_controller_inputs"),
          {"\"bright\" in the column 'value_controller_inputs'"});
  refused(3,
          train_with(golden_model() + rows(R"("controlnet_image": ")" + picture + R"(", "controlnet_processor_id": "sepia")"),
                     more_model("controlnet") + "--extra_inputs " + kControl),
          {"'sepia' is no kind of control"});
  auto other = (kExtras / "../references/a.png").string();
  refused(3,
          train_with(golden_model() + rows(R"("controlnet_image": ")" + other + R"(", "controlnet_processor_id": "canny")"),
                     more_model("controlnet") + "--extra_inputs " + kControl),
          {"cut to 48 by 32 pixels", "scale it to the picture's size"});
  refused(3,
          train_with(golden_model() + rows(R"("lora_encoder_inputs": ")" + (kExtras / "redux.safetensors").string() + "\""),
                     more_model("lora_encoder.safetensors") + "--extra_inputs lora_encoder_inputs"),
          {"redux.safetensors has no LoRA on lora_unet_double_blocks_0_img_attn_qkv"});
}

}  // namespace burnish::flux_extras_test
