#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "io/key_map.h"

namespace burnish::models::ltx2 {

/// The sizes of a stream of tokens: frames, or sound.
struct StreamSizes {
  int64_t num_heads = 32, head_dim = 128;
  int64_t hidden = 16384;        ///< width between the layers of the MLP
  int64_t channels = 128;        ///< numbers of a latent, which is a token
  int64_t caption_width = 4096;  ///< width of the text's tokens that it attends to

  int64_t width() const { return num_heads * head_dim; }
};

/// The extents that places are counted in: a token's middle, over these, is a number from 0 to 1.
struct PlaceSizes {
  int64_t seconds = 20;
  int64_t height = 2048, width = 2048;  ///< pixels
  double theta = 1e4;
};

/// The numbers and switches of the transformer. Defaults are LTX-2.3's; 2.0 and 2.5 differ in the switches.
struct Config {
  StreamSizes frames = {};
  StreamSizes sound = {.num_heads = 32, .head_dim = 64, .hidden = 8192, .channels = 128, .caption_width = 2048};
  int64_t num_layers = 48;
  int64_t projected_width = 0;     ///< width of text states that the transformer projects itself (2.0); 0: it does not
  bool has_gates = true;           ///< whether every head has a gate (from 2.3 on)
  bool modulates_text = true;      ///< whether time modulates attention to texts (from 2.3 on)
  bool has_prompt_time = true;     ///< whether time modulates the text's own tokens too, beside a table
  bool has_frame_biases = true;    ///< whether the MLP of frames has biases (up to 2.3)
  bool marks_first_frame = false;  ///< whether tokens of the first frame, which stand for one frame alone, are marked (2.5)
  PlaceSizes places = {};

  /// Returns the numbers of a token that modulate it in a block, over its width: shift, scale and gate of attention and of the MLP, and
  /// of attention to texts where time modulates it.
  int64_t num_modulations() const { return modulates_text ? 9 : 6; }
  /// Tells whether scales and shifts for attention between frames and sound are of a token's own time (2.5), which is 0 where it is given;
  /// else of the other stream's, as gates always are.
  bool has_own_times() const { return marks_first_frame; }
};

/// A tensor that only 2.0 has, one that all from 2.3 on have, and one that only 2.5 has.
inline constexpr const char *kProjectionMark = "caption_projection.linear_1.weight",
                            *kGateMark = "transformer_blocks.0.attn1.to_gate_logits.weight", *kKeyframeMark = "keyframes_abs_pos_embedding";

/// Returns LTX-2.0's numbers, and 2.5's.
Config config_20();
Config config_25();

/// Names the version of a transformer: "LTX-2", "LTX-2.3" or "LTX-2.5".
const char* version_of(const Config& config);

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell (the places, and 2.0's heads). Throws a data Error when the two disagree.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::ltx2
