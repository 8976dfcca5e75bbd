// Factors for layers: by name, by block, and as other programs number blocks.
#include "loras/layer_strengths.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/skeleton_model.h"

using namespace burnish;
using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

using Layers = std::vector<std::pair<std::string, std::vector<std::string>>>;

loras::AdaptersByComponent adapters_on(const Layers& layers) {
  loras::AdaptersByComponent all;
  for (const auto& [component, paths] : layers) {
    for (const auto& path : paths) all[component].push_back({.path = path});
  }
  return all;
}

std::vector<double> factors(const models::Model& model, const std::string& text, const Layers& layers, const std::string& of = "dit") {
  return loras::LayerStrengths::parse(text)->of(model, adapters_on(layers), "cat.safetensors").at(of);
}

/// So many numbers, each its place but for zeros.
std::string counted(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + std::to_string(i + 1);
  return text;
}

class LayerStrengths : public testing::Test {
 protected:
  LayerStrengths() {
    test::save_skeleton(folder / "model.safetensors", /*num_experts=*/1);
    model = test::open_skeleton(folder / "model.safetensors");
  }
  test::Scratch folder;
  std::unique_ptr<models::Model> model;
};

}  // namespace

TEST_F(LayerStrengths, AreListsOfNamesOrOfNumbers) {
  for (const char* text : {"attn=0.5", "1,0", "a=1,b=-2", "0,0.5,1"}) EXPECT_TRUE(loras::LayerStrengths::parse(text)) << text;
  for (const char* text : {"", "1", "style", "a,b", "1,b"}) EXPECT_FALSE(loras::LayerStrengths::parse(text)) << text;
  EXPECT_THAT(error_of([] { loras::LayerStrengths::parse("attn=much"); }, Exit::config), HasSubstr("name=number"));
  EXPECT_FALSE(loras::LayerStrengths().is_given());
  EXPECT_EQ(loras::LayerStrengths::parse("a=0.5, b{1,2}=1")->text(), "a=0.5,b{1,2}=1") << "texts of pictures have blanks between LoRAs";
  EXPECT_EQ(loras::LayerStrengths::parse("1, 0")->text(), "1,0");
}

TEST_F(LayerStrengths, TheLastNameThatFitsCounts) {
  const Layers layers{{"dit", {"blocks.0.to_q", "blocks.1.to_q", "blocks.1.to_v", "patch_embed"}}, {"text_encoder", {"blocks.0.to_q"}}};
  EXPECT_THAT(factors(*model, "dit.blocks.1=0.5", layers), ElementsAre(1, 0.5, 0.5, 1));
  EXPECT_THAT(factors(*model, ".*=0,blocks.1=1,.*to_v=-2", layers), ElementsAre(0, 1, -2, 0));
  EXPECT_THAT(factors(*model, "text_encoder=0", layers, "text_encoder"), ElementsAre(0));
  EXPECT_THAT(error_of([&] { factors(*model, "blocks.1=1,block.7=0", layers); }, Exit::config),
              AllOf(HasSubstr("cat.safetensors: 'block.7' fits nothing that it adapts"), HasSubstr("dit.blocks.0.to_q")));
}

TEST_F(LayerStrengths, NumbersAreOneForEachBlock) {
  const Layers layers{{"dit", {"blocks.0.to_q", "blocks.1.to_q", "patch_embed"}}};
  const auto num_blocks = static_cast<int>(models::block_paths(model->components(), "dit").size());
  ASSERT_GE(num_blocks, 2);
  EXPECT_THAT(factors(*model, counted(num_blocks), layers), ElementsAre(1, 2, 1));
  EXPECT_THAT(factors(*model, counted(num_blocks + 1), layers), ElementsAre(2, 3, 1));
  EXPECT_THAT(error_of([&] { factors(*model, counted(num_blocks + 2), layers); }, Exit::config),
              HasSubstr("its layers take " + std::to_string(num_blocks) + " or " + std::to_string(num_blocks + 1)));
}

TEST(LayerStrengthsOfModels, AreNumberedAsInWebUi) {
  // Of each: what is named so there (BASE, IN08, M00, OUT00 of SDXL's 12 and 20; IN01, OUT11 of SD 1.5's 17 and 26), in diffusers' names.
  const std::string to_q = ".transformer_blocks.0.attn1.to_q";
  const auto xl = models::open_published_model("sdxl");
  const Layers of_xl{{"text_encoder", {"encoder.layers.0.self_attn.q_proj"}},
                     {"unet", {"down_blocks.2.attentions.1" + to_q, "mid_block.attentions.0" + to_q, "up_blocks.0.attentions.0" + to_q}}};
  EXPECT_THAT(factors(*xl, counted(12), of_xl, "unet"), ElementsAre(5, 6, 7));
  EXPECT_THAT(factors(*xl, counted(20), of_xl, "unet"), ElementsAre(10, 11, 12));
  EXPECT_THAT(factors(*xl, counted(12), of_xl, "text_encoder"), ElementsAre(1));
  EXPECT_THAT(error_of([&] { factors(*xl, counted(17), of_xl, "unet"); }, Exit::config), HasSubstr("12 or 20"));
  const auto sd = models::open_published_model("sd15");
  const Layers of_sd{{"unet", {"down_blocks.0.attentions.0" + to_q, "up_blocks.3.attentions.2" + to_q}}};
  EXPECT_THAT(factors(*sd, counted(17), of_sd, "unet"), ElementsAre(2, 17));
  EXPECT_THAT(factors(*sd, counted(26), of_sd, "unet"), ElementsAre(3, 26));
  const auto flux = models::open_published_model("flux-dev");
  const Layers of_flux{
      {"dit", {"transformer_blocks.18.attn.to_q", "single_transformer_blocks.0.attn.to_q", "single_transformer_blocks.37.attn.to_q"}},
      {"text_encoder_2", {"encoder.block.0.layer.0.SelfAttention.q"}}};
  const auto layers = flux->components().skeleton("dit")->parameters();
  for (const auto& path : of_flux[0].second) EXPECT_TRUE(layers.contains(path + ".weight")) << path;
  EXPECT_THAT(factors(*flux, counted(61), of_flux), ElementsAre(22, 23, 60));
  EXPECT_THAT(factors(*flux, counted(57), of_flux), ElementsAre(19, 20, 57));
  EXPECT_THAT(factors(*flux, counted(61), of_flux, "text_encoder_2"), ElementsAre(2));
  EXPECT_THAT(factors(*flux, "double_blocks.18=0,transformer_blocks.18=0.5", of_flux), ElementsAre(0.5, 1, 1));
}
