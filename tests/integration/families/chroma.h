#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_chroma.py, whose tokenizer lies beside it.
namespace burnish::test {

inline const fs::path kChroma = golden_path("chroma_pipeline");

inline std::string chroma_model() { return "--model '" + (kChroma / "model").string() + "' --dtype fp32 "; }

}  // namespace burnish::test
