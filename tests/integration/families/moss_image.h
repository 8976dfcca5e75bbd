#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_moss_image.py, whose tokenizer lies beside it.
namespace burnish::test {

inline const fs::path kMossImage = golden_path("moss_image_pipeline");

inline std::string moss_image_model(const fs::path& model = kMossImage / "model") {
  return "--model '" + model.string() + "' --dtype fp32 ";
}

}  // namespace burnish::test
