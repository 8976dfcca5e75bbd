#pragma once
#include <fstream>

#include "tests/integration/wan/wan.h"

// The small model of tests/golden/make_wan_experts.py: two transformers, one for much noise and one for little.
namespace burnish::test {

inline const fs::path kWanExperts = golden_path("wan_experts");

/// Makes a folder of diffusers with both transformers, which meet at a noise of 0.6.
inline void make_wan_experts(const fs::path& model) {
  fs::copy(kWan / "model", model, fs::copy_options::recursive);
  fs::copy(kWanExperts / "low_noise_model", model / "transformer_2");
  auto index = nlohmann::json::parse(read_file(model / "model_index.json"));
  index["transformer_2"] = index["transformer"];
  index["boundary_ratio"] = 0.6;
  std::ofstream(model / "model_index.json") << index.dump();
}

}  // namespace burnish::test
