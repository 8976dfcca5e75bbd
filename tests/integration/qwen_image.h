#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_qwen_image.py, whose tokenizer lies beside it.
namespace burnish::test {

inline const fs::path kQwenImage = golden_path("qwen_image_pipeline");

inline std::string qwen_image_model(const fs::path& model = kQwenImage / "model") {
  return "--model '" + model.string() + "' --dtype fp32 ";
}

}  // namespace burnish::test
