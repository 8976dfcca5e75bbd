#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace burnish::models::stable_diffusion {

/// Every architecture number of the UNet. Defaults are SDXL base's.
struct Config {
  /// The numbers of transformer blocks behind each residual block of each level, 0 where there is no attention.
  using Depths = std::vector<std::vector<int64_t>>;

  int64_t in_channels = 4;
  int64_t out_channels = 4;
  std::vector<int64_t> block_out_channels = {320, 640, 1280};  ///< per level, finest first
  Depths down_depths = {{0, 0}, {2, 2}, {10, 10}};             ///< finest level first
  int64_t mid_depth = 10;
  Depths up_depths = {{10, 10, 10}, {2, 2, 2}, {0, 0, 0}};  ///< coarsest level first
  std::vector<int64_t> num_heads = {5, 10, 20};             ///< per level; diffusers' config.json calls it attention_head_dim
  int64_t cross_attention_dim = 2048;                       ///< width of the text embedding
  bool use_linear_projection = true;                        ///< attention's proj_in and proj_out are linear; else 1×1 convolutions
  int64_t pooled_dim = 1280;                                ///< width of the pooled embedding; 0: the model has none, and no time ids
  int64_t addition_time_embed_dim = 256;                    ///< sinusoids per time id
  int64_t num_groups = 32;                                  ///< groups of every group norm
  double norm_eps = 1e-5;
  bool flip_sin_to_cos = true;
  double freq_shift = 0;
};
inline size_t num_levels(const Config& c) { return c.block_out_channels.size(); }
inline int64_t time_width(const Config& c) { return 4 * c.block_out_channels.front(); }
/// Tells whether a pooled embedding and time ids condition the model (diffusers: addition_embed_type "text_time").
inline bool has_added_embedding(const Config& c) { return c.pooled_dim > 0; }

/// Returns Stable Diffusion 1.5's numbers.
Config sd15();

using Shapes = std::map<std::string, std::vector<int64_t>>;
/// Tells whether any name starts with the prefix.
bool any_below(const Shapes& shapes, const std::string& prefix);

/// Reads the numbers from tensor shapes (our names) and, where there is one, from unet/config.json, which wins for what shapes cannot
/// tell: heads, norm groups, width of a time id. Without it, models with linear projections have heads of 64 channels and others 8 heads,
/// as the published ones do. Throws a data Error when config.json and the tensors disagree, or for a kind of UNet that is not known.
Config detect(const nlohmann::json* config_json, const Shapes& shapes);

}  // namespace burnish::models::stable_diffusion
