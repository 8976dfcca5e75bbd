#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_qwen_layered.py, and its pictures of three layers.
namespace burnish::test {

inline const fs::path kQwenLayered = golden_path("qwen_layered_pipeline");

inline std::string qwen_layered_model(const fs::path& model = kQwenLayered / "model") {
  return "--model '" + model.string() + "' --dtype fp32 ";
}

inline std::string layered_data(const fs::path& metadata = kQwenLayered / "layers/metadata.json") {
  return "--dataset_metadata_path '" + metadata.string() + "' --height 48 --width 64 ";
}

/// The picture that the golden latents were drawn from.
inline std::string picture_to_part() { return "--reference '" + (kQwenLayered / "layers/1.png").string() + "' --num_frames 3 "; }

}  // namespace burnish::test
