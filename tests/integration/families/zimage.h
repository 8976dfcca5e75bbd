#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_zimage.py, whose tokenizer lies beside it.
namespace burnish::test {

inline const fs::path kZImage = golden_path("zimage_pipeline");

inline std::string zimage_model(const fs::path& model = kZImage / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

}  // namespace burnish::test
