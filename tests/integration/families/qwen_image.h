#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small models of tests/golden/make_qwen_image.py and make_qwen_edit.py, whose tokenizers lie beside them.
namespace burnish::test {

inline const fs::path kQwenImage = golden_path("qwen_image_pipeline");

inline std::string qwen_image_model(const fs::path& model = kQwenImage / "model") {
  return "--model '" + model.string() + "' --dtype fp32 ";
}

inline const fs::path kQwenEdit = golden_path("qwen_edit_pipeline");

/// With reference pictures of the size that the golden ones have.
inline std::string qwen_edit_model() {
  return qwen_image_model(kQwenEdit / "model") + "--reference_pixels 147456 --extra_inputs edit_image ";
}
/// Rows with one reference, with two, with none, and with one.
inline std::string qwen_edit_data() {
  return "--dataset_metadata_path '" + (kQwenEdit / "metadata.json").string() + "' --height 48 --width 64 ";
}

}  // namespace burnish::test
