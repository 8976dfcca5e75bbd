// MiniMax-H3's references, pictures, clips and sounds of a row, in the whole program beside diffusers and peft
// (tests/golden/make_minimax_h3_references.py), and what of them is refused.
#include <gmock/gmock.h>

#include "data/sound.h"
#include "tests/integration/families/minimax_h3.h"
#include "tests/integration/model_run.h"
#include "tests/integration/parity.h"

namespace burnish::minimax_h3_references_test {
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const fs::path kReferenced = golden_path("minimax_h3_references"), kClips = golden_path("minimax_h3_clips");
const std::string kAsked = "--extra_inputs input_audio,references --reference_pixels 2048 ";

std::string referenced_data(const fs::path& metadata = kReferenced / "metadata.json") {
  return "--dataset_metadata_path " + quoted(metadata) + " --data_file_keys video,input_audio,references " + kMiniMaxH3Size +
         "--num_frames 22 ";
}

class MiniMaxH3References : public BadInput {
 protected:
  std::string train(const std::string& name, const std::string& options, const std::string& data = referenced_data()) const {
    return run_ok("train " + minimax_h3_model() + data + kAsked + "--lora_rank 4 --learning_rate 1e-3 --max_steps 4 " + options +
                  " --output_path " + quoted(at(name)));
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> all;
    for (auto& line : read_log(at(name))) all.push_back(line["loss"]);
    return all;
  }
  /// Latents drawn beside references of that many pixels.
  at::Tensor drawn(const std::string& options) const {
    run_ok("sample " + minimax_h3_model() + kMiniMaxH3Size + "--prompt 'red apple' --seed 3 --num_inference_steps 2 --num_frames 22 " +
           "--reference_pixels 2048 --save_latents " + quoted(at("latents.safetensors")) + " --output_path " + quoted(at("drawn")) + " " +
           options);
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").clone();
  }
  Outcome refused(const std::string& row) const {
    return run_burnish("train " + minimax_h3_model() + referenced_data(write("rows.json", "[" + row + "]")) + kAsked +
                       "--lora_rank 4 --max_steps 1 --output_path " + quoted(at("run")));
  }
};

const std::string kPicture = (kGolden / "pictures/0.png").string(), kClip = (kClips / "1.webp").string(),
                  kSound = (kClips / "1.wav").string();

}  // namespace

TEST_F(MiniMaxH3References, AreTrainedBesideAsByDiffusers) {
  auto log = test::replayed(
      kClips, minimax_h3_model() + referenced_data() + "--lora_checkpoint " + quoted(kMiniMaxH3 / "lora.safetensors") + " " + kAsked);
  auto expected = expected_in(kReferenced);
  expect_logged(log, "loss", expected.tensor("references.loss"), 2e-6);
  expect_logged(log, "grad_norm", expected.tensor("references.grad_norm"), 1e-4);
}

TEST_F(MiniMaxH3References, AreDrawnBesideAsByDiffusers) {
  auto expected = expected_in(kReferenced);
  auto start = expected_in(kClips);
  io::save_safetensors(at("noise.safetensors"),
                       {{"noise", start.tensor("noise").narrow(0, 0, 1).contiguous()},
                        {"audio_latents_noise", start.tensor("audio_latents_noise").narrow(0, 0, 1).contiguous()}});
  run_ok("sample " + minimax_h3_model() + kMiniMaxH3Size +
         "--prompt 'red apple' --num_frames 22 --num_inference_steps 4 --reference_use references --reference_pixels 2048 --reference " +
         test::quoted(fs::path(kPicture)) + " --reference '{\"type\": \"video_audio\", \"video\": \"" + kClip + "\", \"audio\": \"" +
         kSound + "\"}' --noise " + quoted(at("noise.safetensors")) + " --save_latents " + quoted(at("latents.safetensors")) +
         " --output_path " + quoted(at("drawn")));
  auto drawn = io::SafetensorsFile::open(at("latents.safetensors"));
  EXPECT_LE(relative_error(drawn->tensor("latents"), expected.tensor("latents")), tolerance(1e-5));
  EXPECT_LE(relative_error(drawn->tensor("audio_latents"), expected.tensor("audio_latents")), tolerance(1e-5));
}

TEST_F(MiniMaxH3References, StandInTheOrderInWhichTheyAreNamed) {
  const auto picture = "--reference " + test::quoted(fs::path(kPicture)), sound = "--reference " + test::quoted(fs::path(kSound));
  const auto of = [&](const std::string& options) { return drawn("--reference_use references " + options); };
  const auto first = of(picture + " " + sound), second = of(sound + " " + picture);
  EXPECT_GT(relative_error(first, second), 1e-3);
  EXPECT_GT(relative_error(first, of(picture)), 1e-3);
  EXPECT_GT(relative_error(of(picture), drawn(picture)), 1e-3) << "the first frame, which nothing else is asked for";
}

TEST_F(MiniMaxH3References, TrainFromACacheAsFromFiles) {
  EXPECT_THAT(train("live", ""), Not(HasSubstr("memory was not planned")));
  run_ok("cache " + minimax_h3_model() + referenced_data() + kAsked + "--cache_path " + quoted(at("cache")));
  run_ok("train " + minimax_h3_model() + kAsked + "--dataset_base_path " + quoted(at("cache")) +
         " --task sft:train --lora_rank 4 --learning_rate 1e-3 --max_steps 4 --output_path " + quoted(at("cached")));
  EXPECT_EQ(losses("live"), losses("cached"));
}

TEST_F(MiniMaxH3References, RowsWithReferencesOfEqualSizesStandInOneBatch) {
  const std::string row = R"({"video": ")" + kClip + R"(", "prompt": "%", "references": [")" + kSound + R"(", ")" + kPicture + R"("]})";
  auto with = [&](const std::string& caption) { return std::string(row).replace(row.find('%'), 1, caption); };
  const auto data = referenced_data(write("rows.json", "[" + with("red apple") + ", " + with("a cat face, smiling, on a tree") + "]"));
  train("together", "--batch_size 2", data);
  train("apart", "--gradient_accumulation_steps 2", data);
  const auto together = losses("together"), apart = losses("apart");
  for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart.at(i), tolerance(1e-5) * apart[i]);
}

TEST_F(MiniMaxH3References, PreviewsAreDrawnBesideThem) {
  io::write_text_atomic(at("prompts.txt"), "red apple --f 22 --ci " + kPicture + " --ci " + kSound + "\n");
  train("run", "--preview_prompts " + quoted(at("prompts.txt")) + " --preview_num_inference_steps 2");
  EXPECT_FALSE(losses("run").empty());
}

TEST_F(MiniMaxH3References, WhatIsWrongWithThemIsSaid) {
  const std::string begin = R"({"video": ")" + kClip + R"(", "prompt": "cat", "references": )";
  for (const auto& [cell, words] : std::vector<std::pair<std::string, std::string>>{
           {R"([{"type": "film", "video": "x"}]})", "there are image, video, audio and video_audio"},
           {R"([{"type": "video_audio", "video": ")" + kClip + R"("}]})", R"("audio" is to name its file)"},
           {R"([7]})", "the name of a file was expected"},
           {R"(["missing.wav"]})", "does not exist"},
           {R"(["[oops"]})", "does not exist"}}) {
    const auto out = refused(begin + cell);
    EXPECT_EQ(out.exit_code, 3) << cell;
    EXPECT_THAT(out.output, HasSubstr(words));
  }
  const auto both = run_burnish("train " + minimax_h3_model() + referenced_data() +
                                "--extra_inputs references,end_image --lora_rank 4 --max_steps 1 --output_path " + quoted(at("run")));
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.output, HasSubstr("end_image is a clip's last frame and goes with its first"));
}

}  // namespace burnish::minimax_h3_references_test
