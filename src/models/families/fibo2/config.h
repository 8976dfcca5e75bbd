#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::fibo2 {

/// The numbers of what makes a few tokens of a text, its gist. Defaults are those of FIBO 2.0, as all defaults here.
struct GistSizes {
  int64_t num_layers = 2;
  int64_t least = 256, most = 512, step = 64;  ///< tokens of the gist of short texts and of long ones, multiples of a step
  int64_t least_text = 256, most_text = 2048;  ///< tokens of texts that count as short and as long

  /// Returns the gist tokens of texts of so many tokens, fp64 of any shape: they lie between the least and the most as the length does.
  at::Tensor count(const at::Tensor& num_text) const;
  int64_t count(int64_t num_text) const;
};

/// The numbers of the blocks that run over pictures.
struct BlockSizes {
  int64_t width = 3584;
  int64_t head_dim = 128;
  int64_t hidden = 9536;  ///< width between the layers of the MLP
  int64_t num_layers = 44;
  int64_t num_refiner_layers = 2;                      ///< blocks before them that do not see the gist
  std::vector<int64_t> reading = {6, 14, 22, 30, 38};  ///< layers that read the text's states beside
  double norm_eps = 1e-5;
  double rope_theta = 256;
  std::vector<int64_t> axes_dims = {32, 48, 48};  ///< numbers of a head for each position (picture, row, column)

  int64_t num_heads() const { return width / head_dim; }
  int64_t count() const { return num_refiner_layers + num_layers; }
  /// Returns the width of the vector that is made of the time, from which all modulation is made.
  int64_t condition_width() const { return std::min<int64_t>(width, 256); }
};

/// Every architecture number of the transformer.
struct Config {
  BlockSizes blocks;
  GistSizes gist;
  int64_t latent_channels = 32;  ///< numbers of a latent; a token holds 2 × 2 latents
  int64_t caption_width = 7680;  ///< width of what is read of a text: states of three layers of the text encoder side by side
  int64_t time_hidden = 1024;    ///< width inside the timestep embedder

  int64_t in_channels() const { return 4 * latent_channels; }
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell (RoPE, how many gist tokens a text has). Throws a data Error when the two disagree.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

/// Returns the layers of the text encoder whose states a transformer reads, in ascending order.
std::vector<int64_t> text_layers(const Config& config);
/// Returns where the three layers lie among them that are read side by side: for the gist (0), or by the first block that reads (1) and so
/// on.
std::vector<int64_t> read_together(const Config& config, size_t reader);

}  // namespace burnish::models::fibo2
