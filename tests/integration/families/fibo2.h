#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_fibo2.py, whose tokenizer and rule for pictures lie in its folder.
namespace burnish::test {

inline const fs::path kFibo2 = golden_path("fibo2_pipeline");

inline std::string fibo2_model(const fs::path& model = kFibo2 / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

/// It sees the pictures of tests/golden/krea2_edit, beside rows of it.
inline std::string fibo2_edit_model() { return fibo2_model() + "--extra_inputs edit_image "; }
inline std::string fibo2_edit_data() {
  return "--dataset_metadata_path '" + golden_path("krea2_edit/metadata.json") + "' --height 48 --width 64 ";
}

}  // namespace burnish::test
