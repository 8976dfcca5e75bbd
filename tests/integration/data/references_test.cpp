// Reference pictures, as FLUX.1 Kontext takes them: beside diffusers and DiffSynth-Studio (tests/golden/make_references.py), and in all
// ways of running them.
#include <gmock/gmock.h>

#include "tests/golden.h"
#include "tests/integration/families/stable_diffusion.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const fs::path kReferences = fs::path(test::kCheckout) / "tests/golden/references";
const fs::path kDiffSynth = fs::path(test::kCheckout) / "tests/golden/diffsynth";
const std::string kOn = "--extra_inputs kontext_images ";
const std::string kLora = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_q,to_v ";

std::string picture(const std::string& name) { return (kReferences / name).string(); }
/// Rows with one reference, with two, with none, and with one.
std::string mixed() { return option("dataset_metadata_path", kReferences / "metadata.json") + kOn; }

void expect_equal(const fs::path& run, const std::string& name, const char* field, double bound) {
  auto log = read_log(run);
  auto expected = io::SafetensorsFile::open(kReferences / "expected.safetensors")->tensor(name);
  ASSERT_EQ(std::ssize(log), expected.numel()) << name;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    auto value = expected[i].item<double>();
    EXPECT_NEAR(log[static_cast<size_t>(i)][field].get<double>(), value, bound * value) << name << " step " << i;
  }
}

class References : public BadInput {
 protected:
  at::Tensor draw(const std::string& prompts, const std::string& options) {
    auto noise = io::SafetensorsFile::open(kGolden / "expected.safetensors")->tensor("noise");
    io::save_safetensors(at("noise.safetensors"), {{"noise", noise}});
    run_ok("sample " + golden_model() + prompts + " --height 48 --width 64 --num_inference_steps 4 --embedded_guidance 3.5 " +
           option("noise", at("noise.safetensors")) + option("save_latents", at("latents.safetensors")) +
           option("output_path", at("drawn")) + options);
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents");
  }
  std::string train(const std::string& options, const std::string& to) {
    return run_ok("train " + golden_model() + options + option("output_path", at(to)));
  }
  /// Two rows whose reference pictures are of one size.
  std::string alike() {
    auto row = [](int i) {
      auto image = (kGolden / "pictures" / (std::to_string(i) + ".png")).string();
      return nlohmann::json{{"image", image}, {"prompt", i == 0 ? "red apple" : "tree"}, {"kontext_images", picture("a.png")}}.dump() +
             "\n";
    };
    return option("dataset_metadata_path", write("alike.jsonl", row(0) + row(1))) + kOn;
  }
};

const std::string kPrompts = "--prompt 'red apple' --prompt 'tree of the north'";

}  // namespace

TEST_F(References, AreDrawnWithAsInDiffusers) {
  auto expected = io::SafetensorsFile::open(kReferences / "expected.safetensors");
  auto together = draw(kPrompts, option("reference", picture("a.png")) + "--batch_size 2");
  EXPECT_LE(relative_error(together, expected->tensor("latents.one")), tolerance(1e-4));
  auto guided = draw(kPrompts, option("reference", picture("a.png")) + "--negative_prompt cat --cfg_scale 2.5");
  EXPECT_LE(relative_error(guided, expected->tensor("latents.cfg")), tolerance(1e-4));
  auto lines = write("prompts.txt", "red apple --ci " + picture("a.png") + "\ntree of the north\n");
  auto one_of_two = draw(option("prompts", lines), "");
  EXPECT_LE(relative_error(one_of_two[0], expected->tensor("latents.one")[0]), tolerance(1e-4));
  EXPECT_GT(relative_error(one_of_two[1], expected->tensor("latents.one")[1]), 1e-2) << "it has no reference picture";
  auto plain = io::SafetensorsFile::open(kGolden / "expected.safetensors")->tensor("latents.plain");
  EXPECT_LE(relative_error(one_of_two[1], plain[1]), tolerance(1e-4));
}

TEST_F(References, TrainAsInThePlainLoop) {
  train(mixed() + option("lora_checkpoint", kGolden / "lora.safetensors") + option("replay", kGolden / "replay.safetensors") +
            "--loss_weighting uniform --max_steps 10 --learning_rate 1e-3 ",
        "run");
  expect_equal(at("run"), "lora.loss", "loss", 1e-5);
  expect_equal(at("run"), "lora.grad_norm", "grad_norm", 1e-4);
}

TEST_F(References, TrainAsInDiffSynthStudio) {
  train(mixed() + option("lora_checkpoint", kDiffSynth / "start.safetensors") + option("replay", kDiffSynth / "replay.safetensors") +
            "--use_gradient_checkpointing --max_steps 8 --learning_rate 1e-3 ",
        "run");
  expect_equal(at("run"), "diffsynth.loss", "loss", 1e-5);
}

TEST_F(References, GiveTheSameLossesInAllWaysOfRunning) {
  auto how = mixed() + kLora + "--lora_target_modules single_transformer_blocks.1.attn.to_q --max_steps 6 ";
  train(how + "--precompute none --precompute_timesteps off ", "live");
  train(how, "kept");
  train(how + "--precompute_timesteps on ", "ahead");
  train(how + "--precompute_timesteps blocks " + option("cache_path", at("blocks-cache")), "blocks");
  for (const char* other : {"kept", "ahead", "blocks"}) EXPECT_EQ(logged_steps(at("live")), logged_steps(at(other))) << other;

  train(mixed() + "--task sft:data_process ", "cache");
  auto split = kLora + "--lora_target_modules single_transformer_blocks.1.attn.to_q --max_steps 6 --task sft:train " +
               option("dataset_base_path", at("cache"));
  train(split + kOn, "split");
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("split")));
  EXPECT_THAT(train(split, "unnamed"), HasSubstr("was made with extra_inputs kontext_images, which are read"));
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("unnamed")));

  train(option("dataset_metadata_path", kReferences / "metadata.json") + kLora +
            "--lora_target_modules single_transformer_blocks.1.attn.to_q --max_steps 6 ",
        "unseen");
  EXPECT_NE(logged_steps(at("live")), logged_steps(at("unseen"))) << "without extra_inputs they are not read";
}

TEST_F(References, OfOneSizeShareABatchAndOthersDoNot) {
  auto how = kLora + "--max_steps 3 ";
  train(alike() + how + "--batch_size 2 ", "batch");
  train(alike() + how + "--gradient_accumulation_steps 2 ", "singles");
  expect_same_losses(at("batch"), at("singles"));
  EXPECT_THAT(train(mixed() + how + "--batch_size 2 ", "mixed"), HasSubstr("4 samples, 4 batches an epoch"));
}

TEST_F(References, AreSeenByPreviewsValidationAndDistillation) {
  auto prompts = write("prompts.txt", "a red circle --d 3 --s 2 --ci " + picture("a.png") + "\na red circle --d 3 --s 2\n");
  train(mixed() + kLora + "--max_steps 2 --validation_steps 1 " + option("validation_metadata_path", kReferences / "metadata.json") +
            option("preview_prompts", prompts),
        "run");
  auto samples = at("run") / "samples";
  std::vector<std::string> pictures;
  for (const auto& file : files_below(samples)) {
    if (file.ends_with(".png")) pictures.push_back(read_file(samples / file));
  }
  ASSERT_EQ(pictures.size(), 4u) << "two before and two after training";
  EXPECT_NE(pictures[0], pictures[1]);

  nlohmann::json row{{"image", (kGolden / "pictures/0.png").string()}, {"prompt", "tree"}, {"seed", 1}, {"num_inference_steps", 2}};
  auto plain = write("plain.json", nlohmann::json{row}.dump());
  row["kontext_images"] = {picture("a.png"), picture("b.png")};
  auto with = write("with.json", nlohmann::json{row}.dump());
  auto distill = kLora + "--task direct_distill --max_steps 2 --extra_inputs seed,num_inference_steps";
  train(distill + ",kontext_images " + option("dataset_metadata_path", with), "distilled");
  train(distill + " " + option("dataset_metadata_path", plain), "plain");
  EXPECT_NE(logged_steps(at("distilled")), logged_steps(at("plain")));
}

TEST_F(References, AreCountedByThePlan) {
  auto peak = [&](const std::string& more) {
    auto outcome =
        run_burnish("plan --json --num_threads 1 " + golden_model() + "--height 256 --width 256 --max_steps 10 --lora_rank 4 " + more,
                    "BURNISH_LOG=error");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    auto plan = nlohmann::json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
    return plan["stages"].back()["peak"].value("activations", 0.0) +
           plan["stages"][plan["stages"].size() - 2]["peak"].value("activations", 0.0);
  };
  auto without = peak("");
  EXPECT_GT(peak(kOn), 1.4 * without);
}

TEST_F(References, ThatCannotBeUsedAreRefused) {
  auto base = golden_model();
  refused(2, train_with(base + mixed(), "--random_crop"), {"random_crop", "reference pictures (extra_inputs kontext_images)"});
  refused(3, train_with(base + golden_data(), kOn), {"no row names a reference picture in the column 'kontext_images'"});
  refused(2, train_with(sd_model("sdxl_pipeline") + sd_data("sdxl_pipeline"), kOn),
          {"extra_inputs 'kontext_images' names reference pictures", "this stable_diffusion model reads none"});
  refused(2,
          "sample " + sd_model("sdxl_pipeline") + sd_size("sdxl_pipeline") + "--prompt cat " + option("reference", picture("a.png")) +
              option("output_path", out()),
          {"this stable_diffusion model reads none"});
  refused(3, sample(option("reference", at("missing.png"))), {"missing.png"});
  refused(3, sample(option("reference", write("text.png", "no picture"))), {"text.png", "is not a JPEG"});
  auto missing = write("missing.csv", "image,prompt,kontext_images\n" + (kGolden / "pictures/0.png").string() + ",a,gone.png\n");
  refused(3, train_with(base + option("dataset_metadata_path", missing), kOn), {"gone.png does not exist"});
  auto prompts = write("prompts.txt", "cat --ci " + picture("a.png") + "\n");
  refused(2, train_with(base + golden_data(), option("preview_prompts", prompts)), {"a.png", "extra_inputs"});
}

TEST_F(References, DiffSynthStudiosExampleCommandRuns) {
  auto model = at("models/black-forest-labs/FLUX.1-Kontext-dev");
  fs::create_directories(model.parent_path());
  fs::copy(kGolden / "model", model, fs::copy_options::recursive);
  fs::remove(model / "model_index.json");
  fs::copy(kAssets / "tokenizer", model / "tokenizer", fs::copy_options::recursive);
  fs::copy(kAssets / "tokenizer_2", model / "tokenizer_2", fs::copy_options::recursive);
  fs::rename(model / "transformer/diffusion_pytorch_model.safetensors", model / "flux1-kontext-dev.safetensors");
  fs::rename(model / "vae/diffusion_pytorch_model.safetensors", model / "ae.safetensors");
  fs::create_directories(at("data"));
  fs::copy(kGolden / "pictures/0.png", at("data/image_1.jpg"));
  fs::copy(kReferences / "a.png", at("data/image_2.jpg"));
  auto metadata = write("data/metadata.csv", "image,prompt,kontext_images\nimage_1.jpg,red apple,image_2.jpg\n");
  auto outcome = run_burnish(
      "train --dataset_base_path " + quoted(at("data")) + " --dataset_metadata_path " + quoted(metadata) +
          " --data_file_keys \"image,kontext_images\" --max_pixels 1048576 --dataset_repeat 4 "
          "--model_id_with_origin_paths \"black-forest-labs/FLUX.1-Kontext-dev:flux1-kontext-dev.safetensors,"
          "black-forest-labs/FLUX.1-Kontext-dev:text_encoder/model.safetensors,"
          "black-forest-labs/FLUX.1-Kontext-dev:text_encoder_2/*.safetensors,black-forest-labs/FLUX.1-Kontext-dev:ae.safetensors\" "
          "--learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --output_path " +
          quoted(out()) +
          " --lora_base_model \"dit\" --lora_target_modules \"a_to_qkv,b_to_qkv,ff_a.0,ff_a.2,ff_b.0,ff_b.2,a_to_out,b_to_out,proj_out,"
          "norm.linear,norm1_a.linear,norm1_b.linear,to_qkv_mlp\" --lora_rank 32 --align_to_opensource_format "
          "--extra_inputs \"kontext_images\" --use_gradient_checkpointing",
      "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(out() / "step-4.safetensors"));
}
