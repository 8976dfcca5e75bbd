#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_anima.py, whose tokenizers lie beside it.
namespace burnish::test {

inline const fs::path kAnima = golden_path("anima_pipeline");

inline std::string anima_model(const fs::path& model = kAnima / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

}  // namespace burnish::test
