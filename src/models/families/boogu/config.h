#pragma once
#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::boogu {

/// The numbers of a block. Defaults are Boogu-Image 0.1's, Base, Turbo and Edit.
struct BlockSizes {
  int64_t width = 3360;
  int64_t num_heads = 28;
  int64_t num_kv_heads = 7;  ///< heads of keys and values, each for num_heads / num_kv_heads queries
  int64_t hidden = 13568;    ///< width between the layers of an MLP

  static constexpr double kNormEps = 1e-5;
  int64_t head_dim() const { return width / num_heads; }
  /// Returns the numbers of a head for each place: text or picture, row, column.
  std::vector<int64_t> axes_dims() const;
  /// Returns the width of the vector that is made of the time, from which all modulation is made.
  int64_t condition_width() const { return std::min<int64_t>(width, 1024); }
};

/// Every architecture number of the transformer.
struct Config : BlockSizes {
  int64_t latent_channels = 16;  ///< numbers of a latent; a token holds 2 × 2 latents
  int64_t num_double = 8;        ///< blocks in which picture and text are two streams
  int64_t num_single = 32;       ///< blocks in which they are one
  int64_t num_refiners = 2;      ///< blocks over the text alone, over the target, and over each reference picture
  int64_t caption_width = 4096;  ///< width of the text encoder's states
  int64_t most_references = 5;   ///< reference pictures that are told apart
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, Throws a data Error
/// when the two disagree, and for what is computed otherwise.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::boogu
