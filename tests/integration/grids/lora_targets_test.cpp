// Which layers --lora_target_modules names: DiffSynth-Studio's rules on a FLUX model's layers.
#include <set>

#include "adapters/targets.h"
#include "base/error.h"
#include "models/registry.h"
#include "tests/integration/program.h"

using namespace burnish;
using namespace burnish::test;

namespace {

/// The demo model: 2 double and 4 single blocks.
class LoraTargets : public testing::Test {
 protected:
  LoraTargets() {
    models::ModelOptions options;
    options.init = "random";
    model_ = models::open_model(models::open_model_files({{kAssets.string()}, "", ""}), options);
    skeleton_ = model_->components().skeleton("dit");
  }

  std::set<std::string> matched(const std::string& targets) {
    std::set<std::string> paths;
    auto aliases = [&](const std::string& path) { return model_->names().of("dit").target_names(path); };
    for (const auto& path : adapters::match_targets(*skeleton_, targets, aliases)) EXPECT_TRUE(paths.insert(path).second) << path;
    return paths;
  }

  std::vector<std::string> fused(const std::string& targets) {
    return adapters::fused_targets(*skeleton_, targets,
                                   [&](const std::string& path) { return model_->names().of("dit").target_names(path); });
  }

  std::unique_ptr<models::Model> model_;
  std::unique_ptr<nn::Module> skeleton_;
};

}  // namespace

TEST_F(LoraTargets, DefaultIsEveryLayerInTheBlocksAndNoOther) {
  auto paths = matched(model_->names().of("dit").lora_targets);
  EXPECT_EQ(paths.size(), 2u * 14 + 4u * 6);
  EXPECT_EQ(fused(model_->names().of("dit").lora_targets), std::vector<std::string>{});
  for (const auto& path : paths) EXPECT_NE(path.find("transformer_blocks."), path.npos) << path;
}

TEST_F(LoraTargets, ProjOutIsTheSingleBlocksLayer) {
  std::set<std::string> expected;
  for (int i = 0; i < 4; ++i) expected.insert("single_transformer_blocks." + std::to_string(i) + ".proj_out");
  EXPECT_EQ(matched("proj_out"), expected);
  EXPECT_EQ(matched("proj_out,single_blocks.0.proj_out"), expected);
}

TEST_F(LoraTargets, TheLastLayerGoesByDiffSynthsName) {
  EXPECT_EQ(matched("final_proj_out"), std::set<std::string>{"proj_out"});
  EXPECT_TRUE(matched("final_proj_out,proj_out").contains("proj_out"));
  EXPECT_TRUE(matched("all-linear").contains("proj_out"));
}

TEST_F(LoraTargets, NamesOfBothProgramsAndARegularExpression) {
  EXPECT_EQ(matched("a_to_qkv,x_embedder"), matched("transformer_blocks.0.attn.to_q,transformer_blocks.0.attn.to_k,"
                                                    "transformer_blocks.0.attn.to_v,transformer_blocks.1.attn.to_q,"
                                                    "transformer_blocks.1.attn.to_k,transformer_blocks.1.attn.to_v,x_embedder"));
  EXPECT_EQ(matched(".*\\.attn\\.to_q").size(), 6u);
  EXPECT_EQ(matched("single_blocks\\.[01]\\.to_qkv_mlp").size(), 8u);
  EXPECT_EQ(matched("pooled_text_embedder.0"), std::set<std::string>{"time_text_embed.text_embedder.linear_1"});
}

TEST_F(LoraTargets, LayersThatAreNamedTogetherShareAnAdapter) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(fused("a_to_qkv,to_out.0"), (Names{"blocks.0.attn.a_to_qkv", "blocks.1.attn.a_to_qkv"}));
  EXPECT_EQ(fused("a_to_qkv"), (Names{"blocks.0.attn.a_to_qkv", "blocks.1.attn.a_to_qkv"}));
  EXPECT_EQ(fused("single_blocks\\.[01]\\.to_qkv_mlp"), (Names{"single_blocks.0.to_qkv_mlp", "single_blocks.1.to_qkv_mlp"}));
  EXPECT_EQ(fused("a_to_qkv,transformer_blocks.0.attn.to_q").size(), 1u) << "one of the first block's layers is named by itself";
  for (const char* own : {"to_q,to_k,to_v", ".*", ".*attn.*", "all-linear", "", "ff_a.0,proj_out"}) EXPECT_EQ(fused(own), Names{}) << own;
}

TEST_F(LoraTargets, AnEndingNeedsADotBeforeIt) {
  EXPECT_THROW(matched("o_q,_q"), Error);
  EXPECT_THROW(matched("q"), Error);
}

/// DiffSynth-Studio's example for SD 1.5 names no layers. Its rule (diffusion/training_module.py) over its UNet comes to these: lists of
/// one count for nothing, so in the middle block only what lies in lists of its own.
TEST(NoLoraTargets, AreTheLayersThatDiffSynthStudioFinds) {
  auto model = models::open_published_model("sd15");
  auto skeleton = model->components().skeleton("unet");
  auto paths = adapters::match_targets(*skeleton, "", [](const std::string& path) { return std::vector{path}; });
  EXPECT_EQ(paths.size(), 121u);
  std::set<std::string> middle;
  for (const auto& path : paths) {
    if (path.starts_with("mid_block.")) middle.insert(path.substr(10));
  }
  const std::string block = "attentions.0.transformer_blocks.0.";
  EXPECT_EQ(middle, (std::set<std::string>{block + "attn1.to_out.0", block + "attn2.to_out.0", block + "ff.net.0.proj", block + "ff.net.2",
                                           "resnets.0.time_emb_proj", "resnets.1.time_emb_proj"}));
}
