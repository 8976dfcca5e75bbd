#include "models/parts/mmdit_names.h"

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

void add_original_blocks(RenamedLayers& all, const RenamedLayers& of_double, const RenamedLayers& of_single, int64_t num_double,
                         int64_t num_single) {
  add_blocks(all, of_double, "double_blocks.", "transformer_blocks.", num_double);
  add_blocks(all, of_single, "single_blocks.", "single_transformer_blocks.", num_single);
}

}  // namespace burnish::models
