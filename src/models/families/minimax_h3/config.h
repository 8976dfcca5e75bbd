#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "io/key_map.h"

namespace burnish::models::minimax_h3 {

/// The heads of attention.
struct HeadSizes {
  int64_t num = 56, dim = 128;
  int64_t num_frequencies = 16;  ///< pairs of a head that turn with each of time, row and column
  double rope_theta = 1e4;

  int64_t width() const { return num * dim; }  ///< width of all heads side by side, which is not that of tokens
};

/// The layers that embed a time, of which all modulation is made.
struct TimeSizes {
  int64_t channels = 256;  ///< sinusoids of a time
  int64_t hidden = 5376;
  int64_t width = 2688;
  int64_t num_rows = 0;  ///< rows of the table that stands for these layers in pruned files, of times from 0 to 1; 0: there is none
  bool is_table() const { return num_rows > 0; }
};

/// The numbers that keep norms from dividing by zero.
struct NormEps {
  double tokens = 1e-5, heads = 1e-5, last = 1e-5;
};

/// The table of pruned files.
inline constexpr const char* kTimeTable = "adaln_t_table";

/// Every architecture number of the transformer. Defaults are MiniMax-H3's, of which both published ones have the same.
struct Config {
  int64_t width = 5376;
  int64_t num_layers = 50;
  int64_t num_refiner_layers = 2;  ///< blocks that texts alone go through
  int64_t hidden = 14336;          ///< width between the layers of the MLPs
  int64_t in_channels = 24;        ///< numbers of a latent of frames, of which a token has four
  int64_t audio_channels = 32;     ///< numbers of a latent of sound, which is a token
  int64_t caption_width = 5120;    ///< width of the text encoder's states
  HeadSizes heads = {};
  TimeSizes time = {};
  NormEps eps = {};
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell (RoPE, eps). Throws a data Error when the two disagree.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::minimax_h3
