#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_longcat_image.py.
namespace burnish::test {

inline const fs::path kLongCatImage = golden_path("longcat_image_pipeline");

inline std::string longcat_image_model(const fs::path& model = kLongCatImage / "model") {
  return "--model '" + model.string() + "' --dtype fp32 ";
}

}  // namespace burnish::test
