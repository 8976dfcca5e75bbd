// Boogu-Image with reference pictures in all ways of running it.
#include <gmock/gmock.h>

#include "tests/integration/families/boogu.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"

namespace burnish::boogu_edit_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kLora = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_q,img_to_k,norm1.linear ";

class BooguEdit : public BadInput {
 protected:
  std::string train(const std::string& options, const std::string& to, const std::string& data = boogu_edit_data()) {
    return run_ok("train " + boogu_model() + data + options + " --output_path " + quoted(at(to)));
  }
};

}  // namespace

TEST_F(BooguEdit, GivesTheSameLossesInAllWaysOfRunning) {
  const auto how = kLora + "--max_steps 6 ";
  train(how + "--precompute none --precompute_timesteps off ", "live");
  train(how, "kept");
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("kept")));
  const auto attention = "--learning_rate 1e-3 --lora_rank 4 --max_steps 4 --lora_target_modules to_q,img_to_k ";
  train(attention + std::string("--precompute_timesteps off "), "attention");
  EXPECT_THAT(train(attention + std::string("--precompute_timesteps on "), "ahead"), HasSubstr("dit.modulation"));
  EXPECT_EQ(logged_steps(at("attention")), logged_steps(at("ahead")));
  train("--task sft:data_process ", "cache");
  train(how + "--task sft:train ", "split", "--extra_inputs edit_image --dataset_base_path " + quoted(at("cache")) + " ");
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("split")));
}

TEST_F(BooguEdit, BlocksBeforeTheFirstTrainedOneAreComputedAhead) {
  for (const std::string layers : {"double_stream_layers\\.1\\..*to_q", "single_stream_layers\\.1\\..*", "norm_out\\..*"}) {
    const auto how = "--learning_rate 1e-3 --lora_rank 4 --max_steps 4 --overwrite --lora_target_modules '" + layers + "' ";
    train(how + "--precompute_timesteps off ", "live");
    train(how + "--precompute_timesteps blocks --cache_path " + quoted(at("cache")), "ahead");
    EXPECT_EQ(logged_steps(at("live")), logged_steps(at("ahead"))) << layers;
  }
}

TEST_F(BooguEdit, TrainsBatchesOfPicturesOfOneSize) {
  nlohmann::json rows;
  for (const std::string prompt : {"red apple", "tree of the north and a cat face"}) {
    auto image = (kGolden / "pictures" / (std::to_string(rows.size()) + ".png")).string();
    rows.push_back({{"image", image}, {"prompt", prompt}, {"edit_image", (kBooguEdit / "b.png").string()}});
  }
  const auto data = boogu_edit_data(write("alike.json", rows.dump()));
  train(kLora + "--max_steps 3 --batch_size 2 ", "batch", data);
  train(kLora + "--max_steps 3 --gradient_accumulation_steps 2 ", "singles", data);
  expect_same_losses(at("batch"), at("singles"));
}

TEST_F(BooguEdit, PicturesAreSeenAtTheSizeThatIsAskedFor) {
  auto cached = kLora + "--max_steps 1 --cache_path " + quoted(at("cache")) + " ";
  train(cached, "first");
  EXPECT_THAT(train(cached, "again"), HasSubstr("encode_prompt: 0 of 4 results to compute"));
  EXPECT_THAT(train(cached + "--reference_pixels 1024 ", "small"), HasSubstr("encode_references: 4 of 4 results to compute"));
}

TEST_F(BooguEdit, ALoraOnTheVisionTowerIsDrawnWith) {
  train("--learning_rate 1e-2 --lora_rank 4 --max_steps 2 --lora_base_model dit,image_encoder ", "run");
  EXPECT_THAT(
      run_ok("sample " + boogu_model() + "--prompt cat --height 48 --width 64 --num_inference_steps 1 --reference " +
             quoted(kBooguEdit / "a.png") + " --lora " + quoted(at("run/step-2.safetensors")) + " --output_path " + quoted(at("drawn"))),
      HasSubstr("layers of image_encoder"));
}

TEST_F(BooguEdit, IsCountedByThePlan) {
  auto activations = [&](const std::string& options) {
    auto outcome =
        run_burnish("plan --json --num_threads 1 " + boogu_model() + options + "--height 384 --width 384 --max_steps 10 --lora_rank 4",
                    "BURNISH_LOG=error");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    const auto plan = nlohmann::json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
    for (const auto& stage : plan["stages"]) {
      if (stage["name"] == "step") return stage["peak"].value("activations", 0.0);
    }
    return 0.0;
  };
  EXPECT_GT(activations("--extra_inputs edit_image "), 1.5 * activations("")) << "a picture of the target's size beside it";
}

TEST_F(BooguEdit, MorePicturesThanAreToldApartAreRefused) {
  std::string six;
  for (int i = 0; i < 6; ++i) six += "--reference " + quoted(kBooguEdit / "a.png") + " ";
  refused(2, "sample " + boogu_model() + "--prompt cat --height 48 --width 64 " + six + "--output_path " + quoted(at("drawn")),
          {"6 reference pictures, of which Boogu-Image 0.1 sees 5 at most"});
}

}  // namespace burnish::boogu_edit_test
