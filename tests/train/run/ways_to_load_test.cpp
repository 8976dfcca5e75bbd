// How files of a run are loaded, by the layout of what is in them.
#include "train/run/ways_to_load.h"

#include <gmock/gmock.h>

using namespace burnish;
using namespace burnish::train;
using adapters::Layout;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

TrainedFile adapter(const std::string& name, const std::string& kind, Layout layout) {
  return {.name = name, .values = {}, .metadata = {{"adapter", kind}}, .layout = layout};
}

}  // namespace

TEST(WaysToLoad, NameTheFileWhereItIsRead) {
  EXPECT_THAT(ways_to_load({adapter("cat-step-9.safetensors", "lora", Layout::diffusers)}, "runs/cat"),
              ElementsAre("draw with it: burnish sample --run 'runs/cat' --prompt \"...\"",
                          "ComfyUI: copy cat-step-9.safetensors into models/loras, and load it with Load LoRA; diffusers: "
                          "pipe.load_lora_weights(\"runs/cat\", weight_name=\"cat-step-9.safetensors\")"));
}

TEST(WaysToLoad, NoProgramIsNamedThatDoesNotReadTheLayout) {
  auto way = [](const std::string& kind, Layout layout) { return ways_to_load({adapter("a.safetensors", kind, layout)}, "run").at(1); };
  const auto comfyui = HasSubstr("ComfyUI"), diffusers = HasSubstr("diffusers");
  EXPECT_THAT(way("dora", Layout::diffusers), AllOf(Not(comfyui), diffusers)) << "it would be drawn without its magnitude";
  EXPECT_THAT(way("lora", Layout::kohya), AllOf(comfyui, diffusers));
  EXPECT_THAT(way("loha", Layout::kohya), AllOf(comfyui, Not(diffusers)));
  EXPECT_THAT(way("lokr", Layout::lycoris), AllOf(comfyui, Not(diffusers)));
  EXPECT_THAT(way("dora", Layout::onetrainer), AllOf(comfyui, Not(diffusers)));
  EXPECT_THAT(way("lora", Layout::diffsynth), AllOf(Not(comfyui), Not(diffusers), HasSubstr("DiffSynth-Studio")));
}

TEST(WaysToLoad, WholeWeightsReplaceThoseOfTheModel) {
  auto ways = ways_to_load({{.name = "step-9.safetensors", .values = {}, .metadata = {}},
                            {.name = "step-9.text_encoder.safetensors", .values = {}, .metadata = {}}},
                           "run");
  ASSERT_EQ(ways.size(), 2u) << "said once of all";
  EXPECT_THAT(ways[1], AllOf(HasSubstr("copy of the model's folder"), HasSubstr("burnish convert")));
}
