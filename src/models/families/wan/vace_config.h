#pragma once
#include "models/families/wan/config.h"

namespace burnish::models::wan {

/// Every architecture number of VACE's module beside the transformer's. Defaults are those of Wan2.1-VACE-14B.
struct VaceConfig {
  int64_t in_channels = 96;                                   ///< of the clip outside the mask and inside it, and of the mask
  int64_t num_blocks = 8;                                     ///< blocks of its own
  std::vector<int64_t> layers{0, 5, 10, 15, 20, 25, 30, 35};  ///< blocks of the transformer behind which it adds, rising
  std::vector<double> scales = {};                            ///< factors of what each of its blocks adds; none: 1
};

/// Reads them from tensor shapes (our names) and config.json, which wins for the layers: where it names none, they are spread evenly over
/// the transformer's blocks. Throws a data Error where the two disagree.
VaceConfig detect_vace(const nlohmann::json& config_json, const io::Shapes& shapes, const Config& dit);

}  // namespace burnish::models::wan
