#include "models/mmdit_names.h"

#include <algorithm>

namespace burnish::models {

const RenamedLayers kDoubleBlockLayers{
    {"img_attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}},
    {"txt_attn.qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}},
    {"img_attn.proj", {"attn.to_out.0"}},
    {"txt_attn.proj", {"attn.to_add_out"}},
    {"img_mlp.0", {"ff.net.0.proj"}},
    {"img_mlp.2", {"ff.net.2"}},
    {"txt_mlp.0", {"ff_context.net.0.proj"}},
    {"txt_mlp.2", {"ff_context.net.2"}},
};
const RenamedLayers kSingleBlockLayers{
    {"linear1", {"attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"}},
    {"linear2", {"proj_out"}},
};
const RenamedLayers kBlockNorms{
    {"double_blocks.{}.img_attn.norm.query_norm.scale", {"transformer_blocks.{}.attn.norm_q.weight"}},
    {"double_blocks.{}.img_attn.norm.key_norm.scale", {"transformer_blocks.{}.attn.norm_k.weight"}},
    {"double_blocks.{}.txt_attn.norm.query_norm.scale", {"transformer_blocks.{}.attn.norm_added_q.weight"}},
    {"double_blocks.{}.txt_attn.norm.key_norm.scale", {"transformer_blocks.{}.attn.norm_added_k.weight"}},
    {"single_blocks.{}.norm.query_norm.scale", {"single_transformer_blocks.{}.attn.norm_q.weight"}},
    {"single_blocks.{}.norm.key_norm.scale", {"single_transformer_blocks.{}.attn.norm_k.weight"}},
};

int64_t blocks_before(const std::string& path, int64_t num_double, int64_t num_single, const std::vector<std::string>& behind) {
  const std::string of_double = "transformer_blocks.", of_single = "single_transformer_blocks.";
  if (path.starts_with(of_double)) return std::stoll(path.substr(of_double.size()));
  if (path.starts_with(of_single)) return num_double + std::stoll(path.substr(of_single.size()));
  bool is_behind = std::ranges::any_of(behind, [&](const auto& layer) { return path.starts_with(layer + "."); });
  return is_behind ? num_double + num_single : 0;
}

}  // namespace burnish::models
