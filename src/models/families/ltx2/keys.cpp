#include "models/families/ltx2/keys.h"

#include "models/parts/layer_tables.h"

namespace burnish::models::ltx2 {

namespace {

// Facts: the converter of diffusers (scripts/convert_ltx2_to_diffusers.py) and names of published files.
const std::string kTheirBlocks = "transformer_blocks.", kOurBlocks = "transformer_blocks.";

/// The layers that embed times, by their words in original files and ours.
const std::vector<std::pair<std::string, std::string>> kTimes{
    {"adaln_single", "time_embed"},
    {"audio_adaln_single", "audio_time_embed"},
    {"prompt_adaln_single", "prompt_adaln"},
    {"audio_prompt_adaln_single", "audio_prompt_adaln"},
    {"av_ca_video_scale_shift_adaln_single", "av_cross_attn_video_scale_shift"},
    {"av_ca_audio_scale_shift_adaln_single", "av_cross_attn_audio_scale_shift"},
    {"av_ca_a2v_gate_adaln_single", "av_cross_attn_video_a2v_gate"},
    {"av_ca_v2a_gate_adaln_single", "av_cross_attn_audio_v2a_gate"},
};

RenamedLayers outside() {
  RenamedLayers layers{{"patchify_proj", {"proj_in"}},
                       {"audio_patchify_proj", {"audio_proj_in"}},
                       {"proj_out", {"proj_out"}},
                       {"audio_proj_out", {"audio_proj_out"}}};
  for (const auto& [theirs, ours] : kTimes) {
    for (const std::string part : {".emb.timestep_embedder.linear_1", ".emb.timestep_embedder.linear_2", ".linear"})
      layers.push_back({theirs + part, {ours + part}});
  }
  for (const std::string of : {"caption_projection", "audio_caption_projection"}) {
    for (const std::string layer : {".linear_1", ".linear_2"}) layers.push_back({of + layer, {of + layer}});
  }
  return layers;
}

const std::vector<std::string> kAttentions{"attn1", "attn2", "audio_attn1", "audio_attn2", "audio_to_video_attn", "video_to_audio_attn"};

RenamedLayers in_blocks() {
  RenamedLayers layers;
  for (const auto& attention : kAttentions) {
    for (const std::string layer : {".to_q", ".to_k", ".to_v", ".to_out.0", ".to_gate_logits"})
      layers.push_back({attention + layer, {attention + layer}});
  }
  for (const std::string layer : {"ff.net.0.proj", "ff.net.2", "audio_ff.net.0.proj", "audio_ff.net.2"}) layers.push_back({layer, {layer}});
  return layers;
}

RenamedLayers original_layers(const Config& config) {
  return with_blocks(outside(), in_blocks(), {{kTheirBlocks, kOurBlocks, config.num_layers}});
}

}  // namespace

io::KeyMap original_keys() {
  std::vector<io::KeyRule> rules;
  add_rules(rules, outside());
  const auto theirs = kTheirBlocks + "{}.", ours = kOurBlocks + "{}.";
  add_rules(rules, in_blocks(), theirs, ours);
  for (const auto& attention : kAttentions) {
    for (const std::string of : {"q", "k"})
      rules.push_back({theirs + attention + "." + of + "_norm.weight", {ours + attention + ".norm_" + of + ".weight"}});
  }
  for (const std::string of : {"video", "audio"})
    rules.push_back({theirs + "scale_shift_table_a2v_ca_" + of, {ours + of + "_a2v_cross_attn_scale_shift_table"}});
  for (const std::string table : {"scale_shift_table", "audio_scale_shift_table"}) {
    rules.push_back({table, {table}});
    for (const std::string of_text : {"", "prompt_"}) {
      auto name = table;
      name.insert(name.find("scale"), of_text);
      rules.push_back({theirs + name, {ours + name}});
    }
  }
  rules.push_back({kKeyframeMark, {kKeyframeMark}});
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config) { return named_by(original_layers(config)); }

std::map<std::string, LayerTable> written_layers(const Config& config) { return written_in(original_layers(config)); }

std::vector<std::string> target_names(const std::string& path) {
  static const io::KeyMap keys = original_keys();
  return both_names(keys, path);
}

}  // namespace burnish::models::ltx2
