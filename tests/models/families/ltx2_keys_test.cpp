// What files and adapters of other programs call the layers of LTX-2's transformer.
#include <gtest/gtest.h>

#include "models/families/ltx2/config.h"
#include "models/families/ltx2/keys.h"

namespace burnish::ltx2_keys_test {
using namespace burnish::models;
using namespace burnish::models::ltx2;

namespace {

using Layers = std::vector<std::string>;

Layers found(const LayerTable& table, const std::string& name) {
  const auto it = table.find(name);
  return it == table.end() ? Layers() : it->second;
}

}  // namespace

TEST(Ltx2Keys, LayersOfBlocksAreCalledAlike) {
  const auto table = foreign_layers(Config());
  for (const std::string layer : {"attn1.to_q", "audio_attn2.to_out.0", "video_to_audio_attn.to_gate_logits", "audio_ff.net.0.proj"}) {
    const auto path = "transformer_blocks.47." + layer;
    EXPECT_EQ(found(table, path), Layers{path}) << "ComfyUI, ai-toolkit and DiffSynth-Studio";
  }
  EXPECT_EQ(found(table, "lora_unet_transformer_blocks_3_audio_to_video_attn_to_out_0"),
            Layers{"transformer_blocks.3.audio_to_video_attn.to_out.0"})
      << "musubi-tuner's fork";
  EXPECT_TRUE(found(table, "transformer_blocks.48.attn1.to_q").empty());
}

TEST(Ltx2Keys, LayersOutsideAreOriginal) {
  const auto table = foreign_layers(Config());
  // "adaln_single" is a part of seven of these names, each of which is another layer.
  for (const auto& [theirs, ours] : std::vector<std::pair<std::string, std::string>>{
           {"adaln_single.linear", "time_embed.linear"},
           {"audio_adaln_single.linear", "audio_time_embed.linear"},
           {"prompt_adaln_single.linear", "prompt_adaln.linear"},
           {"audio_prompt_adaln_single.linear", "audio_prompt_adaln.linear"},
           {"av_ca_video_scale_shift_adaln_single.linear", "av_cross_attn_video_scale_shift.linear"},
           {"av_ca_audio_scale_shift_adaln_single.linear", "av_cross_attn_audio_scale_shift.linear"},
           {"av_ca_a2v_gate_adaln_single.linear", "av_cross_attn_video_a2v_gate.linear"},
           {"av_ca_v2a_gate_adaln_single.linear", "av_cross_attn_audio_v2a_gate.linear"},
           {"adaln_single.emb.timestep_embedder.linear_1", "time_embed.emb.timestep_embedder.linear_1"},
           {"patchify_proj", "proj_in"},
           {"audio_patchify_proj", "audio_proj_in"}}) {
    EXPECT_EQ(found(table, theirs), Layers{ours});
    EXPECT_EQ(original_keys().to_ours(theirs + ".weight").ours, Layers{ours + ".weight"});
  }
}

TEST(Ltx2Keys, AdaptersAreWrittenInOriginalNames) {
  const auto written = written_layers(Config());
  EXPECT_EQ(found(written.at("comfyui"), "diffusion_model.audio_adaln_single.linear"), Layers{"audio_time_embed.linear"});
  EXPECT_EQ(found(written.at("kohya"), "lora_unet_patchify_proj"), Layers{"proj_in"});
}

TEST(Ltx2Keys, TargetsAreKnownByEitherName) {
  const auto names = target_names("time_embed.linear");
  EXPECT_NE(std::ranges::find(names, "time_embed.linear"), names.end());
  EXPECT_NE(std::ranges::find(names, "adaln_single.linear"), names.end()) << "DiffSynth-Studio's";
}

}  // namespace burnish::ltx2_keys_test
