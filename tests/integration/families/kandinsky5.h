#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_kandinsky5.py.
namespace burnish::test {

inline const fs::path kKandinsky5 = golden_path("kandinsky5_pipeline");

inline std::string kandinsky5_model(const fs::path& model = kKandinsky5 / "model") {
  return "--model '" + model.string() + "' --dtype fp32 ";
}

}  // namespace burnish::test
