#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small models of tests/golden/make_stable_diffusion.py.
namespace burnish::test {

/// sdxl_pipeline or sd15_pipeline; their tokenizer is that of assets/tiny-flux, which SDXL's second encoder pads with "!".
inline std::string sd_model(const std::string& pipeline, const std::string& dtype = "fp32") {
  return "--model '" + golden_path(pipeline + "/model") + "' --tokenizer_path '" + (kAssets / "tokenizer").string() + "' --dtype " + dtype +
         " ";
}
/// Pictures of 64 by 48, cut to 64 by 40; for SD 1.5 scaled and cut to 192 by 128 (make_stable_diffusion_runs.py says why).
inline std::string sd_size(const std::string& pipeline) {
  return pipeline == "sdxl_pipeline" ? "--height 40 --width 64 " : "--height 128 --width 192 ";
}
inline std::string sd_data(const std::string& pipeline) {
  return "--dataset_metadata_path '" + (kGolden / "pictures/metadata.csv").string() + "' " + sd_size(pipeline);
}

}  // namespace burnish::test
