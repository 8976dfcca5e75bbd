#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_ideogram4.py, whose tokenizer lies beside it.
namespace burnish::test {

inline const fs::path kIdeogram4 = golden_path("ideogram4_pipeline");

inline std::string ideogram4_model(const fs::path& model = kIdeogram4 / "model") {
  return "--model '" + model.string() + "' --dtype fp32 ";
}

}  // namespace burnish::test
