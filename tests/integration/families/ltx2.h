#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_ltx2.py, whose sides are multiples of 32.
namespace burnish::test {

inline const fs::path kLtx2 = golden_path("ltx2_pipeline");
inline const std::string kLtx2Size = "--height 32 --width 64 ";

inline std::string ltx2_model(const fs::path& model = kLtx2 / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

inline std::string ltx2_data() { return "--dataset_metadata_path '" + (kGolden / "pictures/metadata.csv").string() + "' " + kLtx2Size; }

}  // namespace burnish::test
