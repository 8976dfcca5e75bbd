#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_flux2_dev.py, whose tokenizer lies beside it.
namespace burnish::test {

inline const fs::path kFlux2Dev = golden_path("flux2_dev_pipeline");

inline std::string flux2_dev_model(const fs::path& model = kFlux2Dev / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

}  // namespace burnish::test
