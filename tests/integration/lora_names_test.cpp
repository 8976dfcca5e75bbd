// LoRAs of Z-Image and Qwen-Image under the names of every program that writes them, and in every format that burnish writes.
#include <algorithm>

#include "io/safetensors.h"
#include "tests/integration/qwen_image.h"
#include "tests/integration/refused.h"
#include "tests/integration/zimage.h"

using namespace burnish;
using namespace burnish::test;

namespace {

/// How a program spells a layer's keys.
struct Spelling {
  const char* program;
  const char* before;  ///< before the path
  bool underscores;    ///< in place of the path's dots
  const char *down, *up;
};

constexpr const char *kA = ".lora_A.weight", *kB = ".lora_B.weight", *kDown = ".lora_down.weight", *kUp = ".lora_up.weight",
                     *kDefaultA = ".lora_A.default.weight", *kDefaultB = ".lora_B.default.weight";

constexpr Spelling kSpellings[] = {
    {"ai-toolkit, ComfyUI, OneTrainer's COMFY_LORA", "diffusion_model.", false, kA, kB},
    {"checkpoints in ComfyUI", "model.diffusion_model.", false, kA, kB},
    {"sd-scripts, musubi-tuner, OneTrainer's KOHYA_LORA", "lora_unet_", true, kDown, kUp},
    {"two separators", "lora_unet__", true, kDown, kUp},
    {"OneTrainer's LEGACY_LORA", "transformer.", false, kDown, kUp},
    {"OneTrainer's ORIGINAL_LORA", "", false, kA, kB},
    {"OneTrainer, flat", "lora_transformer_", true, kDown, kUp},
    {"peft", "base_model.model.", false, kA, kB},
    {"LyCORIS", "lycoris_", true, kDown, kUp},
    {"DiffSynth-Studio", "", false, kDefaultA, kDefaultB},
    {"DiffSynth-Studio, with its prefix", "pipe.dit.", false, kDefaultA, kDefaultB},
};

/// An adapter of diffusers under other names.
void respell(const fs::path& from, const fs::path& to, const Spelling& spelling) {
  auto source = io::TensorSource::open({from});
  io::NamedTensors renamed;
  const std::string prefix = "transformer.";
  const std::pair<std::string, std::string> endings[] = {{kA, spelling.down}, {kB, spelling.up}, {".alpha", ".alpha"}};
  for (const auto& name : source.names()) {
    for (const auto& [ours, theirs] : endings) {
      if (!name.ends_with(ours)) continue;
      auto path = name.substr(prefix.size(), name.size() - prefix.size() - ours.size());
      if (spelling.underscores) std::ranges::replace(path, '.', '_');
      renamed.emplace_back(spelling.before + path + theirs, source.tensor(name));
    }
  }
  ASSERT_EQ(renamed.size(), source.names().size());
  io::save_safetensors(to, renamed);
}

class LoraNames : public BadInput, public testing::WithParamInterface<const char*> {
 protected:
  fs::path golden() const { return is_qwen() ? kQwenImage : kZImage; }
  fs::path lora() const { return golden() / "lora.safetensors"; }
  std::string model() const { return is_qwen() ? qwen_image_model() : zimage_model(); }
  bool is_qwen() const { return std::string(GetParam()) == "qwen_image"; }
  void ok(const std::string& arguments) const {
    auto outcome = run_burnish(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
  }
  at::Tensor latents(const fs::path& file) const {
    auto adapter = file.empty() ? "" : "--lora " + quoted(file);
    ok("sample " + model() + "--prompt 'red apple' --seed 3 --height 48 --width 64 --num_inference_steps 2 --save_latents " +
       quoted(at("latents.safetensors")) + " --output_path " + quoted(at("pictures")) + " " + adapter);
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").clone();
  }
};

}  // namespace

TEST_P(LoraNames, OfOtherProgramsMeanTheSameLayers) {
  auto expected = latents(lora());
  EXPECT_GT(relative_error(latents(""), expected), 1e-3);
  for (const auto& spelling : kSpellings) {
    SCOPED_TRACE(spelling.program);
    respell(lora(), at("respelled.safetensors"), spelling);
    EXPECT_TRUE(at::equal(latents(at("respelled.safetensors")), expected));
  }
}

TEST_P(LoraNames, OfEveryFormatAreReadBack) {
  auto expected = latents(lora());
  for (const std::string format : {"diffusers", "kohya", "onetrainer", "lycoris", "comfyui", "diffsynth"}) {
    SCOPED_TRACE(format);
    auto file = at(format + ".safetensors");
    ok("convert " + quoted(lora()) + " " + quoted(file) + " --lora_format " + format + " --model " + quoted(golden() / "model"));
    EXPECT_LE(relative_error(latents(file), expected), tolerance(1e-6));
  }
  // With alphas diffusers takes files under its own names for those of other programs, and finds no layer.
  for (const auto& name : io::TensorSource::open({at("diffusers.safetensors")}).names()) EXPECT_FALSE(name.ends_with(".alpha")) << name;
}

/// A trained file is in the names that DiffSynth-Studio gives its own module tree, which has diffusers' layers for these models.
TEST_P(LoraNames, OfDiffSynthStudioAreWrittenByTraining) {
  auto train = [&](const std::string& format) {
    ok("train " + model() + golden_data() +
       "--lora_rank 4 --lora_alpha 8 --max_steps 2 --learning_rate 0.01 --save_dtype fp32 --lora_format " + format + " --output_path " +
       quoted(at(format)));
    return at(format) / "step-2.safetensors";
  };
  auto file = train("diffsynth");
  auto source = io::TensorSource::open({file});
  for (const auto& name : source.names())
    EXPECT_TRUE((name.ends_with(kDefaultA) || name.ends_with(kDefaultB)) && !name.starts_with("transformer.")) << name;
  EXPECT_TRUE(source.contains(is_qwen() ? "transformer_blocks.0.attn.to_out.0.lora_A.default.weight"
                                        : "layers.0.feed_forward.w1.lora_A.default.weight"));
  EXPECT_LE(relative_error(latents(file), latents(train("kohya"))), tolerance(1e-6));
}

INSTANTIATE_TEST_SUITE_P(Of, LoraNames, testing::Values("zimage", "qwen_image"), [](const auto& info) { return std::string(info.param); });
