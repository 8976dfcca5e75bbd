#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_krea2.py, whose tokenizer lies beside it.
namespace burnish::test {

inline const fs::path kKrea2 = golden_path("krea2_pipeline");

inline std::string krea2_model(const fs::path& model = kKrea2 / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

}  // namespace burnish::test
