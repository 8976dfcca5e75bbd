#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_flux2.py, whose tokenizer lies beside it.
namespace burnish::test {

inline const fs::path kFlux2 = golden_path("flux2_pipeline");

inline std::string flux2_model(const fs::path& model = kFlux2 / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

}  // namespace burnish::test
