#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_wan.py, whose tokenizer lies beside it; those of make_wan_frames.py, and the clips of
// make_wan_clips.py.
namespace burnish::test {

inline const fs::path kWan = golden_path("wan_pipeline"), kWanClips = golden_path("wan_clips");

inline std::string wan_model(const fs::path& model = kWan / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

/// The small model by its parts, with another transformer, and what else it needs.
inline std::string wan_parts(const std::vector<fs::path>& others) {
  std::string options;
  for (const auto& part : others) options += option("model", part);
  return options + option("model", kWan / "model/text_encoder") + option("model", kWan / "model/vae") +
         option("tokenizer_path", kWan / "model/tokenizer") + "--dtype fp32 ";
}

/// "ti2v", a model as TI2V-5B, or "i2v", as I2V-A14B, which goes on from the first frame; its text encoder is that of kWan.
inline std::string wan_from_frame(const std::string& name) {
  const auto frames = fs::path(golden_path("wan_frames")) / name;
  return wan_model(frames / "transformer") + option("model", frames / "vae") + option("model", kWan / "model/text_encoder") +
         option("tokenizer_path", kWan / "model/tokenizer") + "--extra_inputs input_image ";
}

/// Four clips of nine frames, 64 wide.
inline std::string wan_clips(int64_t height = 48) {
  return option("dataset_metadata_path", kWanClips / "metadata.csv") + "--height " + std::to_string(height) +
         " --width 64 --num_frames 9 --frame_rate 16 ";
}

}  // namespace burnish::test
