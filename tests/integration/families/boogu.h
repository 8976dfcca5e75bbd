#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_boogu.py.
namespace burnish::test {

inline const fs::path kBoogu = golden_path("boogu_pipeline");

inline std::string boogu_model(const fs::path& model = kBoogu / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

/// What make_boogu_edit.py adds to it: reference pictures.
inline const fs::path kBooguEdit = golden_path("boogu_edit");

inline std::string boogu_edit_data(const fs::path& metadata = kBooguEdit / "metadata.json") {
  return "--extra_inputs edit_image --dataset_metadata_path '" + metadata.string() + "' --height 48 --width 64 ";
}

}  // namespace burnish::test
