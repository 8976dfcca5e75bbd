#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_minimax_h3.py, whose sides are multiples of 32.
namespace burnish::test {

inline const fs::path kMiniMaxH3 = golden_path("minimax_h3_pipeline");
inline const std::string kMiniMaxH3Size = "--height 32 --width 64 ";

inline std::string minimax_h3_model(const fs::path& model = kMiniMaxH3 / "model") {
  return "--model '" + model.string() + "' --dtype fp32 ";
}

inline std::string minimax_h3_data() {
  return "--dataset_metadata_path '" + (kGolden / "pictures/metadata.csv").string() + "' " + kMiniMaxH3Size;
}

}  // namespace burnish::test
