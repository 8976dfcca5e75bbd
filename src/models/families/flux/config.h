#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace burnish::models::flux {

/// Every architecture number of the transformer. Defaults are FLUX.1-dev's.
struct Config {
  int64_t in_channels = 64;   ///< 4 × (latent channels, and channels that an editing model reads beside them)
  int64_t out_channels = 64;  ///< 4 × latent channels
  int64_t num_double_blocks = 19;
  int64_t num_single_blocks = 38;
  int64_t head_dim = 128;
  int64_t num_heads = 24;
  int64_t joint_attention_dim = 4096;                  ///< width of the T5 embedding
  int64_t pooled_projection_dim = 768;                 ///< width of CLIP's pooled embedding
  bool guidance_embeds = true;                         ///< dev: true, schnell: false
  std::vector<int64_t> axes_dims_rope = {16, 56, 56};  ///< numbers of a head for each id axis (unused, row, column); they sum to head_dim
  double mlp_ratio = 4.0;

  int64_t width() const { return head_dim * num_heads; }
};

using Shapes = std::map<std::string, std::vector<int64_t>>;

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what
/// shapes cannot tell (RoPE axes). With neither, the head width is the length of the query norm's weight.
/// Throws a data Error when config.json and the tensors disagree.
Config detect(const nlohmann::json* config_json, const Shapes& shapes);

}  // namespace burnish::models::flux
