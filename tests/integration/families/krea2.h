#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_krea2.py, whose tokenizer lies beside it.
namespace burnish::test {

inline const fs::path kKrea2 = golden_path("krea2_pipeline");

inline std::string krea2_model(const fs::path& model = kKrea2 / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

/// What make_krea2_edit.py adds to it, by which it sees reference pictures.
inline const fs::path kKrea2Edit = golden_path("krea2_edit");

inline std::string krea2_edit_model() {
  return krea2_model() + "--extra_inputs edit_image --tokenizer_path '" + (kKrea2Edit / "tokenizer").string() + "' --processor_path '" +
         (kKrea2Edit / "processor").string() + "' ";
}

inline std::string krea2_edit_data(const std::string& metadata = "metadata.json") {
  return "--dataset_metadata_path '" + (kKrea2Edit / metadata).string() + "' --height 48 --width 64 ";
}

}  // namespace burnish::test
