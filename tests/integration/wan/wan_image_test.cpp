// Wan 2.1 going on from a first frame that it sees through CLIP, and between a first and a last one, in the whole program beside diffusers,
// transformers and peft (tests/golden/make_wan_image.py).
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tests/integration/parity.h"
#include "tests/integration/refused.h"
#include "tests/integration/wan/wan.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kImage = golden_path("wan_image"), kPictures = kGolden / "pictures";

class WanImage : public BadInput {
 protected:
  /// The small model by its parts; `transformer` is that of I2V unless a test made another.
  std::string model(const fs::path& transformer = kImage / "transformer", const fs::path& clip = kImage / "image_encoder") const {
    std::string options;
    for (const auto& part : {transformer, clip, kWan / "model/text_encoder", kWan / "model/vae"})
      options += "--model " + quoted(part) + " ";
    return options + "--tokenizer_path " + quoted(kWan / "model/tokenizer") + " --dtype fp32 ";
  }
  /// The transformer with places for the states of two frames.
  fs::path flf2v() const {
    const auto folder = at("flf2v");
    if (fs::exists(folder)) return folder;
    fs::create_directories(folder);
    auto config = nlohmann::json::parse(read_file(kImage / "transformer/config.json"));
    auto places = expected_in(kImage).tensor("places").clone();
    config["pos_embed_seq_len"] = places.size(1);
    std::ofstream(folder / "config.json") << config.dump();
    auto weights = io::TensorSource::open({kImage / "transformer/diffusion_pytorch_model.safetensors"});
    io::NamedTensors all{{"condition_embedder.image_embedder.pos_embed", places}};
    for (const auto& name : weights.names()) all.emplace_back(name, weights.tensor(name).clone());
    io::save_safetensors(folder / "diffusion_pytorch_model.safetensors", all);
    return folder;
  }
  /// Two clips of five frames, ten a second, where a test can change their metadata.
  std::string clips() const {
    if (!fs::exists(at("clips"))) fs::copy(kImage / "clips", at("clips"));
    return "--dataset_metadata_path " + quoted(at("clips/metadata.csv")) + " --height 48 --width 64 --num_frames 5 --frame_rate 10 ";
  }
  void latents(const std::string& name, const std::string& options) const {
    auto expected = expected_in(kImage);
    io::save_safetensors(at("noise.safetensors"), {{"noise", expected.tensor("noise")}});
    auto out = run_burnish("sample --height 48 --width 64 --num_frames 9 --num_inference_steps 4 --prompt 'red apple' --noise " +
                           quoted(at("noise.safetensors")) + " --save_latents " + quoted(at("latents.safetensors")) + " --output_path " +
                           quoted(at("drawn")) + " --reference " + quoted(kPictures / "0.png") + " " + options);
    ASSERT_EQ(out.exit_code, 0) << out.output;
    auto drawn = io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents");
    EXPECT_LE(relative_error(drawn, expected.tensor("latents." + name)), tolerance(1e-5)) << name;
    EXPECT_TRUE(fs::exists(at("drawn/0000.webp")));
  }
  void steps(const std::string& name, const std::string& options) const {
    auto out = run_burnish("train --max_steps 4 --learning_rate 1e-3 --loss_weighting uniform --replay " +
                           quoted(kImage / "replay.safetensors") + " --lora_checkpoint " + quoted(kImage / "lora.safetensors") +
                           " --output_path " + quoted(at("replayed")) + " " + clips() + options);
    ASSERT_EQ(out.exit_code, 0) << out.output;
    auto log = read_log(at("replayed"));
    auto expected = expected_in(kImage);
    expect_logged(log, "loss", expected.tensor(name + ".loss"), 2e-6);
    expect_logged(log, "grad_norm", expected.tensor(name + ".grad_norm"), 1e-4);
  }
  /// Losses and gradient norms of a run, every digit.
  std::string trained(const std::string& name, const std::string& options) const {
    auto outcome = run_burnish("train " + clips() + "--lora_rank 4 --max_steps 3 --learning_rate 1e-2 --num_threads 1 --output_path " +
                               quoted(at(name)) + " " + options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    std::string text;
    for (auto& line : read_log(at(name))) text += nlohmann::json{line["loss"], line["grad_norm"]}.dump() + "\n";
    return text;
  }
};

const std::string kFirst = "--extra_inputs input_image ", kBoth = "--extra_inputs input_image,end_image ";
const std::string kEnd = "--end_image '" + (kPictures / "1.png").string() + "' ";

}  // namespace

TEST_F(WanImage, IsDrawnFromAFirstFrame) { latents("i2v", model()); }
TEST_F(WanImage, IsDrawnToALastFrameThatClipDoesNotSee) { latents("inp", model() + kEnd); }
TEST_F(WanImage, IsDrawnBetweenFramesThatClipSees) { latents("flf2v", model(flf2v()) + kEnd); }

TEST_F(WanImage, TrainsOnFirstFrames) { steps("i2v", model() + kFirst); }
TEST_F(WanImage, TrainsOnFirstAndLastFrames) { steps("flf2v", model(flf2v()) + kBoth); }
TEST_F(WanImage, TrainsCheckpointed) { steps("i2v", model() + kFirst + "--use_gradient_checkpointing "); }

TEST_F(WanImage, LastFramesOfAColumnTakeThePlaceOfTheClipsOwn) {
  const auto own = trained("own", model(flf2v()) + kBoth);
  auto with_column = [&](const std::string& name, const std::string& of_row_0) {
    std::ofstream metadata(at("clips/metadata.csv"));
    metadata << "video,prompt,end_image\n0.gif,red apple," << of_row_0 << "\n1.gif,red apple,\n";
    metadata.close();
    return trained(name, model(flf2v()) + kBoth);
  };
  EXPECT_EQ(with_column("empty", ""), own);
  EXPECT_NE(with_column("other", (kPictures / "3.png").string()), own);
}

// A frame that stands in place of noise may be given at a share of visits; models that always read one cannot do without.
TEST_F(WanImage, AHeldFrameMayBeGivenAtAShareOfVisits) {
  const auto given = wan_from_frame("ti2v") + "--height 32 ", bare = given.substr(0, given.find("--extra_inputs")) + "--height 32 ";
  auto losses = [&](const std::string& name, const std::string& options) {
    trained(name, options + "--learning_rate 1e-12 --max_steps 12 ");
    std::vector<double> all;
    for (auto& line : read_log(at(name))) all.push_back(line["loss"]);
    return all;
  };
  const auto never = losses("never", bare), always = losses("always", given), some = losses("some", given + "--given_frames_share 0.5 ");
  size_t num_given = 0;
  for (size_t i = 0; i < some.size(); ++i) {
    const bool is_given = std::abs(some[i] - always[i]) < std::abs(some[i] - never[i]);
    EXPECT_NEAR(some[i], is_given ? always[i] : never[i], 1e-6) << i;
    num_given += is_given;
  }
  EXPECT_GT(num_given, 0u);
  EXPECT_LT(num_given, some.size());
  for (const auto& other : {bare, wan_from_frame("i2v")})
    expect_one_error(run_burnish("train " + clips() + "--lora_rank 4 --max_steps 1 --output_path " + quoted(out()) + " " + other +
                                     "--given_frames_share 0.5",
                                 "BURNISH_LOG=error"),
                     2, {"given_frames_share", "TI2V-5B"});
}

/// Of every kind of model that goes on from a first frame.
TEST_F(WanImage, FirstFramesOfAColumnTakeThePlaceOfTheClipsOwn) {
  const std::string column = "--extra_inputs input_image,start_image ";
  int number = 0;
  for (const auto& of_kind : {model(), wan_from_frame("i2v"), wan_from_frame("ti2v") + "--height 32 "}) {
    const auto bare = of_kind.substr(0, of_kind.find("--extra_inputs")) + (of_kind.ends_with("32 ") ? "--height 32 " : "");
    auto with_column = [&](const std::string& of_row_0) {
      clips();
      std::ofstream metadata(at("clips/metadata.csv"));
      metadata << "video,prompt,start_image\n0.gif,red apple," << of_row_0 << "\n1.gif,red apple,\n";
      metadata.close();
      return trained(std::to_string(number++), bare + column);
    };
    const auto own = trained(std::to_string(number++), bare + kFirst);
    EXPECT_EQ(with_column(""), own);
    EXPECT_NE(with_column((kPictures / "3.png").string()), own);
  }
  refused(2, "train --lora_rank 2 --max_steps 1 --output_path " + quoted(out()) + " " + clips() + model() + "--extra_inputs start_image",
          {"in place of a clip's first frame", "input_image"});
}

TEST_F(WanImage, SplitAndCachedRunsAreAsUnsplitOnes) {
  const auto whole = trained("whole", model(flf2v()) + kBoth);
  EXPECT_EQ(trained("cached", model(flf2v()) + kBoth + "--cache_path " + quoted(at("cache"))), whole);
  auto made = run_burnish("train --task sft:data_process " + clips() + model(flf2v()) + kBoth + "--output_path " + quoted(at("encoded")));
  ASSERT_EQ(made.exit_code, 0) << made.output;
  const auto split =
      run_burnish("train --task sft:train --dataset_base_path " + quoted(at("encoded")) + " --model " + quoted(flf2v()) + " --dtype fp32 " +
                  kBoth + "--lora_rank 4 --max_steps 3 --learning_rate 1e-2 --num_threads 1 " + "--output_path " + quoted(at("split")));
  ASSERT_EQ(split.exit_code, 0) << split.output;
  // Where samples lie in memory decides how some processors add up, in the last bit.
  std::istringstream lines(whole);
  for (auto& line : read_log(at("split"))) {
    std::string of_whole;
    std::getline(lines, of_whole);
    const auto expected = nlohmann::json::parse(of_whole);
    EXPECT_NEAR(line["loss"].get<double>(), expected[0].get<double>(), 1e-6);
    EXPECT_NEAR(line["grad_norm"].get<double>(), expected[1].get<double>(), 1e-6);
  }
}

// Without a first frame the transformer reads zeros, as Fun's models do for texts alone.
TEST_F(WanImage, TrainsOnTextsAlone) { EXPECT_NE(trained("texts", model()), trained("frames", model() + kFirst)); }

TEST_F(WanImage, ClipsFileOfComfyUiTrainsAlike) {
  auto weights = io::TensorSource::open({kImage / "image_encoder/model.safetensors"});
  io::NamedTensors comfy{{"visual_projection.weight", at::zeros({4, 16})}};
  for (const auto& name : weights.names()) comfy.emplace_back("vision_model." + name, weights.tensor(name).clone());
  io::save_safetensors(at("clip_vision_h.safetensors"), comfy);
  fs::copy_file(kImage / "image_encoder/config.json", at("config.json"));
  EXPECT_EQ(trained("comfy", model(kImage / "transformer", at("clip_vision_h.safetensors")) + kFirst), trained("folder", model() + kFirst));
}

TEST_F(WanImage, IsDescribedAndConverted) {
  auto told = run_burnish("inspect " + quoted(kImage / "image_encoder"));
  EXPECT_THAT(told.output, HasSubstr("CLIP image encoder"));
  auto parts = quoted(kImage / "transformer") + " " + quoted(kImage / "image_encoder");
  fs::copy(kWan / "model", at("pipeline"), fs::copy_options::recursive);
  fs::remove_all(at("pipeline/transformer"));
  fs::copy(kImage / "transformer", at("pipeline/transformer"));
  fs::copy(kImage / "image_encoder", at("pipeline/image_encoder"));
  auto index = nlohmann::json::parse(read_file(at("pipeline/model_index.json")));
  index["_class_name"] = "WanImageToVideoPipeline";
  index["image_encoder"] = {"transformers", "CLIPVisionModel"};
  std::ofstream(at("pipeline/model_index.json")) << index.dump();
  auto convert = [&](const std::string& arguments) {
    auto outcome = run_burnish("convert " + arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
  };
  convert(quoted(at("pipeline")) + " " + quoted(at("single.safetensors")));
  convert(quoted(at("single.safetensors")) + " " + quoted(at("back")) + " --config_from " + quoted(at("pipeline")));
  auto ours = io::TensorSource::open({kImage / "image_encoder/model.safetensors"});
  auto back = io::TensorSource::open({at("back/image_encoder/model.safetensors")});
  for (const auto& name : ours.names()) {
    ASSERT_TRUE(back.contains("vision_model." + name)) << name;
    EXPECT_TRUE(::at::equal(back.tensor("vision_model." + name), ours.tensor(name))) << name;
  }
}

TEST_F(WanImage, PreviewsAreDrawnBetweenFrames) {
  std::ofstream(at("prompts.txt")) << "red apple --f 5 --ci " << (kPictures / "0.png").string() << " --end_image "
                                   << (kPictures / "1.png").string() << "\n";
  trained("previewed",
          model(flf2v()) + kBoth + "--preview_steps 3 --preview_num_inference_steps 2 --preview_prompts " + quoted(at("prompts.txt")));
  EXPECT_TRUE(fs::exists(at("previewed/samples/step-000003/00.webp")));
}

TEST_F(WanImage, MemoryIsSavedWithoutChangingNumbers) {
  const auto plain = trained("plain", model() + kFirst + "--use_gradient_checkpointing ");
  EXPECT_EQ(trained("paged", model() + kFirst + "--use_gradient_checkpointing --blocks_to_swap 2 "), plain);
  EXPECT_EQ(trained("unchecked", model() + kFirst), plain);
}

// As Wan2.2-Fun-A14B-InP: one expert of two, which reads frames beside the noise and not through CLIP.
TEST_F(WanImage, AnExpertTrainsBetweenFramesWithoutClip) {
  const fs::path expert = at("low_noise_model"), frames = golden_path("wan_frames/i2v");
  fs::copy(frames / "transformer", expert);
  auto parts = "--model " + quoted(expert) + " --model " + quoted(frames / "vae") + " --model " + quoted(kWan / "model/text_encoder") +
               " --tokenizer_path " + quoted(kWan / "model/tokenizer") + " --dtype fp32 --max_timestep_boundary 1 " +
               "--min_timestep_boundary 0.358 ";
  const auto both = trained("both", parts + kBoth);
  EXPECT_NE(both, trained("first", parts + kFirst));
  EXPECT_TRUE(fs::exists(at("both/step-3.low_noise.safetensors")));
}

TEST_F(WanImage, WhatIsMissingIsSaid) {
  const auto data = clips();
  auto train = [&](const std::string& options) {
    return "train --lora_rank 2 --max_steps 1 --output_path " + quoted(out()) + " " + data + options;
  };
  refused(2, train(model() + "--extra_inputs end_image"), {"end_image is a clip's last frame", "input_image"});
  refused(2, train(model(kImage / "transformer", kImage / "image_encoder") + kBoth + "--num_frames 1"), {"no other than its first"});
  refused(2, train(wan_model() + kBoth), {"names reference pictures", "this wan model reads none"});
  auto without_clip = "--model " + quoted(kImage / "transformer") + " --model " + quoted(kWan / "model/text_encoder") + " --model " +
                      quoted(kWan / "model/vae") + " --tokenizer_path " + quoted(kWan / "model/tokenizer") + " --dtype fp32 ";
  refused(3, train(without_clip + kFirst), {"needs a CLIP image encoder", "name it with a further --model"});
  refused(2,
          "sample --prompt cat --height 48 --width 64 --num_frames 5 --output_path " + quoted(out()) + " " + model(flf2v()) +
              "--reference " + quoted(kPictures / "0.png"),
          {"no end_image", "--end_image"});
}
