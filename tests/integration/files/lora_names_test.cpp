// LoRAs of Z-Image, Qwen-Image and Wan under the names of every program that writes them, and in every format that burnish writes.
#include <algorithm>

#include "io/safetensors.h"
#include "tests/integration/families/qwen_image.h"
#include "tests/integration/families/zimage.h"
#include "tests/integration/refused.h"
#include "tests/integration/wan/wan.h"

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

/// Of Wan, whose own names most programs keep.
struct WanSpelling {
  Spelling names;
  bool is_original;
};

constexpr WanSpelling kSpellingsOfWan[] = {
    {{"ComfyUI, ai-toolkit, diffusion-pipe, musubi-tuner's conversion", "diffusion_model.", false, kA, kB}, true},
    {{"ComfyUI, with the other factors", "diffusion_model.", false, kDown, kUp}, true},
    {{"checkpoints in ComfyUI", "model.diffusion_model.", false, kA, kB}, true},
    {{"musubi-tuner", "lora_unet_", true, kDown, kUp}, true},
    {{"DiffSynth-Studio", "", false, kDefaultA, kDefaultB}, true},
    {{"DiffSynth-Studio, with its prefix", "pipe.dit.", false, kDefaultA, kDefaultB}, true},
    {{"diffusers, SimpleTuner", "transformer.", false, kA, kB}, false},
    {{"peft", "base_model.model.", false, kA, kB}, false},
    {{"LyCORIS in SimpleTuner", "lycoris_", true, kDown, kUp}, false},
    {{"LyCORIS on Wan's own modules", "lycoris_", true, kDown, kUp}, true},
};

/// Wan's own name of a layer of diffusers.
std::string original_of_wan(std::string path) {
  const std::pair<const char*, const char*> parts[] = {{"attn1.", "self_attn."},    {"attn2.", "cross_attn."},
                                                       {"to_out.0", "o"},           {"to_", ""},
                                                       {"ffn.net.0.proj", "ffn.0"}, {"ffn.net.2", "ffn.2"}};
  for (const auto& [ours, theirs] : parts) {
    if (auto at = path.find(ours); at != path.npos) path.replace(at, std::string(ours).size(), theirs);
  }
  return path;
}

/// An adapter of diffusers under other names.
void respell(const fs::path& from, const fs::path& to, const Spelling& spelling, bool is_original_of_wan = false) {
  auto source = io::TensorSource::open({from});
  io::NamedTensors renamed;
  const std::string prefix = "transformer.";
  const std::pair<std::string, std::string> endings[] = {{kA, spelling.down}, {kB, spelling.up}, {".alpha", ".alpha"}};
  for (const auto& name : source.names()) {
    for (const auto& [ours, theirs] : endings) {
      if (!name.ends_with(ours)) continue;
      auto path = name.substr(prefix.size(), name.size() - prefix.size() - ours.size());
      if (is_original_of_wan) path = original_of_wan(path);
      if (spelling.underscores) std::ranges::replace(path, '.', '_');
      renamed.emplace_back(spelling.before + path + theirs, source.tensor(name));
    }
  }
  ASSERT_EQ(renamed.size(), source.names().size());
  io::save_safetensors(to, renamed);
}

class LoraNames : public BadInput, public testing::WithParamInterface<const char*> {
 protected:
  fs::path golden() const { return is_qwen() ? kQwenImage : is_wan() ? kWan : kZImage; }
  fs::path lora() const { return golden() / "lora.safetensors"; }
  std::string model() const { return is_qwen() ? qwen_image_model() : is_wan() ? wan_model() : zimage_model(); }
  bool is_wan() const { return std::string(GetParam()) == "wan"; }
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
  auto means_the_same = [&](const Spelling& spelling, bool is_original_of_wan) {
    SCOPED_TRACE(spelling.program);
    respell(lora(), at("respelled.safetensors"), spelling, is_original_of_wan);
    EXPECT_TRUE(at::equal(latents(at("respelled.safetensors")), expected));
  };
  if (is_wan()) {
    for (const auto& [spelling, is_original] : kSpellingsOfWan) means_the_same(spelling, is_original);
  } else {
    for (const auto& spelling : kSpellings) means_the_same(spelling, false);
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

/// A trained file is in the names that DiffSynth-Studio gives its own module tree, which has diffusers' layers for these models, and
/// Wan's own for Wan.
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
  EXPECT_TRUE(source.contains(is_qwen()  ? "transformer_blocks.0.attn.to_out.0.lora_A.default.weight"
                              : is_wan() ? "blocks.0.self_attn.o.lora_A.default.weight"
                                         : "layers.0.feed_forward.w1.lora_A.default.weight"));
  EXPECT_LE(relative_error(latents(file), latents(train("kohya"))), tolerance(1e-6));
}

INSTANTIATE_TEST_SUITE_P(Of, LoraNames, testing::Values("zimage", "qwen_image", "wan"),
                         [](const auto& info) { return std::string(info.param); });
