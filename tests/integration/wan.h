#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_wan.py, whose tokenizer lies beside it.
namespace burnish::test {

inline const fs::path kWan = golden_path("wan_pipeline");

inline std::string wan_model(const fs::path& model = kWan / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

}  // namespace burnish::test
