#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_ernie_image.py, whose tokenizer lies beside it.
namespace burnish::test {

inline const fs::path kErnieImage = golden_path("ernie_image_pipeline");

inline std::string ernie_image_model(const fs::path& model = kErnieImage / "model") {
  return "--model '" + model.string() + "' --dtype fp32 ";
}

}  // namespace burnish::test
