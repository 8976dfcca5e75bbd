#pragma once
#include "models/families/wan/config.h"

namespace burnish::models::wan {

/// Every architecture number of Wan-Animate's module beside the transformer's. Defaults are those of Wan2.2-Animate-14B.
struct AnimateConfig {
  int64_t pose_channels = 16;  ///< of the latents of poses
  /// Channels of a face: those of the first layer, and those behind each halving of its sides, down to 4 by 4.
  std::vector<int64_t> channels{32, 64, 128, 256, 512, 512, 512, 512};
  int64_t style_width = 512;   ///< numbers that convolutions make of a face
  int64_t num_linears = 5;     ///< layers from these to the numbers of its motion
  int64_t num_motions = 20;    ///< directions in which a face moves
  int64_t motion_width = 512;  ///< width of a direction
  int64_t face_width = 1024;   ///< of what is made of a face's motion over time
  int64_t num_tokens = 4;      ///< tokens that each frame of it becomes, before the one that is learned
  int64_t num_fusers = 8;      ///< blocks behind which faces are seen
  int64_t step = 5;            ///< of so many blocks of the transformer, faces are seen behind the first

  /// The side of the square that a face is.
  int64_t face_side() const { return int64_t{4} << (channels.size() - 1); }
};

/// Reads them from tensor shapes (our names) and config.json, which wins for the step. Throws a data Error where they do not fit the
/// transformer.
AnimateConfig detect_animate(const nlohmann::json& config_json, const io::Shapes& shapes, const Config& dit);

}  // namespace burnish::models::wan
