#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_sd3.py, whose tokenizers lie beside it.
namespace burnish::test {

inline const fs::path kSd3 = golden_path("sd3_pipeline");

inline std::string sd3_model(const fs::path& model = kSd3 / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

}  // namespace burnish::test
