// SDXL and SD 1.5 beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_stable_diffusion_runs.py).
#include "tests/golden.h"
#include "tests/integration/families/stable_diffusion.h"
#include "tests/single_file.h"

namespace burnish::sdxl_parity_test {
using namespace burnish::test;

namespace {

struct Case {
  const char* pipeline;
  const char* name;
  const char* options;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.pipeline).substr(0, 4) + "_" + info.param.name + "_" + std::to_string(info.index);
}

io::TensorSource expected(const std::string& pipeline) { return golden(pipeline + "/expected.safetensors"); }

const char* const kLong =
    "red apple and a cat face, smiling, tree of the north, red apple, a cat, green tree, blue sea, yellow sun, cat and apple";

/// The latents that `sample` ends with.
at::Tensor draw(const std::string& model, const std::string& pipeline, const std::string& name, const std::string& options) {
  Scratch folder;
  std::string prompts = "--prompt 'red apple' --prompt 'tree of the north' ";
  if (name == "long" || name == "chunks") prompts = std::string("--num_images 2 --prompt '") + kLong + "' ";
  if (name == "empty") prompts = "--num_images 2 --prompt '' ";
  auto out = run_burnish("sample " + model + prompts + sd_size(pipeline) + "--num_inference_steps 5 --noise '" +
                         golden_path(pipeline + "/noise.safetensors") + "' --save_latents '" + (folder / "latents.safetensors").string() +
                         "' --output_path '" + (folder / "out").string() + "' " + options);
  EXPECT_EQ(out.exit_code, 0) << out.output;
  if (out.exit_code != 0) return at::zeros({1});
  EXPECT_TRUE(fs::exists(folder / "out/0001.png"));
  return io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents");
}

}  // namespace

class StableDiffusionSamples : public testing::TestWithParam<Case> {};

TEST_P(StableDiffusionSamples, AreThoseOfDiffusers) {
  const std::string pipeline = GetParam().pipeline, name = GetParam().name;
  auto latents = draw(sd_model(pipeline), pipeline, name, GetParam().options);
  EXPECT_LE(relative_error(latents, expected(pipeline).tensor("latents." + name)), tolerance(1e-4));
}

#define GUIDED "--cfg_scale 3 --negative_prompt cat "
#define LEADING "--timestep_spacing leading "
#define VELOCITY "--prediction_type v_prediction --zero_terminal_snr "
INSTANTIATE_TEST_SUITE_P(
    Cases, StableDiffusionSamples,
    testing::Values(Case{"sdxl_pipeline", "plain", ""}, Case{"sdxl_pipeline", "euler", GUIDED "--sampler euler"},
                    Case{"sdxl_pipeline", "euler_a", GUIDED "--sampler euler_a"},
                    Case{"sdxl_pipeline", "dpmpp_2m", GUIDED "--sampler dpmpp_2m"}, Case{"sdxl_pipeline", "ddim", GUIDED "--sampler ddim"},
                    Case{"sdxl_pipeline", "no_negative", "--cfg_scale 3"}, Case{"sdxl_pipeline", "empty", ""},
                    Case{"sdxl_pipeline", "long", ""}, Case{"sdxl_pipeline", "chunks", "--max_token_length 150"},
                    Case{"sdxl_pipeline", "clip_skip", "--clip_skip 3"}, Case{"sdxl_pipeline", "rescale", GUIDED "--guidance_rescale 0.7"},
                    Case{"sdxl_pipeline", "v_ddim", GUIDED VELOCITY "--sampler ddim"}, Case{"sdxl_pipeline", "v_euler", GUIDED VELOCITY},
                    Case{"sd15_pipeline", "plain", LEADING}, Case{"sd15_pipeline", "euler", GUIDED LEADING "--sampler euler"},
                    Case{"sd15_pipeline", "euler_a", GUIDED LEADING "--sampler euler_a"},
                    Case{"sd15_pipeline", "dpmpp_2m", GUIDED LEADING "--sampler dpmpp_2m"},
                    Case{"sd15_pipeline", "ddim", GUIDED LEADING "--sampler ddim"}, Case{"sd15_pipeline", "no_negative", "--cfg_scale 3"},
                    Case{"sd15_pipeline", "empty", ""}, Case{"sd15_pipeline", "long", ""},
                    Case{"sd15_pipeline", "clip_skip", "--clip_skip 2"}, Case{"sd15_pipeline", "v_euler", GUIDED VELOCITY}),
    name_of);

TEST(StableDiffusionSamples, OfASingleFileAndOfOneAtATimeAreTheSame) {
  for (const std::string pipeline : {"sdxl_pipeline", "sd15_pipeline"}) {
    // The autoencoder and the text encoders of the test model need their config.json only for their numbers of groups and heads.
    auto single = "--model '" + single_file(pipeline) + "' --tokenizer_path '" + (kAssets / "tokenizer").string() +
                  "' --dtype fp32 --timestep_spacing leading ";
    auto latents = draw(single, pipeline, "euler", GUIDED "--batch_size 1");
    EXPECT_LE(relative_error(latents, expected(pipeline).tensor("latents.euler")), tolerance(1e-4)) << pipeline;
  }
}

TEST(StableDiffusionSamples, WithALora) {
  for (const std::string pipeline : {"sdxl_pipeline", "sd15_pipeline"}) {
    auto latents = draw(sd_model(pipeline), pipeline, "lora", LEADING "--lora '" + golden_path(pipeline + "/lora.safetensors") + "'");
    EXPECT_LE(relative_error(latents, expected(pipeline).tensor("latents.lora")), tolerance(1e-4)) << pipeline;
  }
}

class StableDiffusionSteps : public testing::TestWithParam<Case> {};

TEST_P(StableDiffusionSteps, AreThoseOfDiffusersAndPeft) {
  const std::string pipeline = GetParam().pipeline, name = GetParam().name;
  Scratch folder;
  auto adapter = name.substr(0, 4);
  auto trained = adapter == "full" ? "--trainable_models unet "
                                   : "--lora_checkpoint '" + golden_path(pipeline + "/" + adapter + ".safetensors") + "' ";
  auto out = run_burnish("train " + sd_model(pipeline) + sd_data(pipeline) + trained + "--max_steps 10 --learning_rate 1e-3 --replay '" +
                         golden_path(pipeline + "/replay.safetensors") + "' --output_path " + (folder / "run").string() + " " +
                         GetParam().options);
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto log = read_log(folder / "run");
  auto losses = expected(pipeline).tensor(name + ".loss"), norms = expected(pipeline).tensor(name + ".grad_norm");
  ASSERT_EQ(log.size(), 10u);
  for (size_t i = 0; i < log.size(); ++i) {
    auto loss = losses[static_cast<int64_t>(i)].item<double>(), norm = norms[static_cast<int64_t>(i)].item<double>();
    EXPECT_NEAR(log[i]["loss"].get<double>(), loss, tolerance(1e-5) * loss) << name << " step " << i;
    EXPECT_NEAR(log[i]["grad_norm"].get<double>(), norm, tolerance(1e-4) * norm) << name << " step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, StableDiffusionSteps,
    testing::Values(Case{"sdxl_pipeline", "lora", ""}, Case{"sdxl_pipeline", "lora", "--use_gradient_checkpointing"},
                    Case{"sdxl_pipeline", "dora", ""}, Case{"sdxl_pipeline", "dora", "--use_gradient_checkpointing"},
                    Case{"sdxl_pipeline", "lora_min_snr", "--min_snr_gamma 5"}, Case{"sdxl_pipeline", "lora_v", VELOCITY},
                    Case{"sdxl_pipeline", "lora_v_min_snr", VELOCITY "--min_snr_gamma 5"}, Case{"sdxl_pipeline", "full", ""},
                    Case{"sdxl_pipeline", "full_v", VELOCITY "--use_gradient_checkpointing"}, Case{"sd15_pipeline", "lora", ""},
                    Case{"sd15_pipeline", "dora", ""}, Case{"sd15_pipeline", "lora_v", VELOCITY "--use_gradient_checkpointing"},
                    Case{"sd15_pipeline", "full", ""}, Case{"sd15_pipeline", "full", "--use_gradient_checkpointing"}),
    name_of);

}  // namespace burnish::sdxl_parity_test
