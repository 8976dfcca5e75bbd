#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_fibo2.py, whose tokenizer and rule for pictures lie in its folder.
namespace burnish::test {

inline const fs::path kFibo2 = golden_path("fibo2_pipeline");

inline std::string fibo2_model(const fs::path& model = kFibo2 / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

}  // namespace burnish::test
