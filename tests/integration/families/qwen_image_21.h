#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_qwen_image_21.py, whose sides are multiples of 32.
namespace burnish::test {

inline const fs::path kQwenImage21 = golden_path("qwen_image_21_pipeline");
inline const std::string kQwenImage21Size = "--height 32 --width 64 ";

inline std::string qwen_image_21_model(const fs::path& model = kQwenImage21 / "model") {
  return "--model '" + model.string() + "' --dtype fp32 ";
}

inline std::string qwen_image_21_data() {
  return "--dataset_metadata_path '" + (kGolden / "pictures/metadata.csv").string() + "' " + kQwenImage21Size;
}

/// What make_qwen_image_21_edit.py adds: data with reference pictures, which are scaled to few pixels.
inline const fs::path kQwenImage21Edit = golden_path("qwen_image_21_edit");

inline std::string qwen_image_21_edit_model() { return qwen_image_21_model() + "--extra_inputs edit_image --reference_pixels 2048 "; }

inline std::string qwen_image_21_edit_data() {
  return "--dataset_metadata_path '" + (kQwenImage21Edit / "metadata.json").string() + "' " + kQwenImage21Size;
}

}  // namespace burnish::test
