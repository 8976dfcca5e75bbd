#pragma once
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small model of tests/golden/make_longcat_video.py, a folder without an index, and the clips of make_wan_clips.py.
namespace burnish::test {

inline const fs::path kLongCatVideo = golden_path("longcat_video_pipeline"), kClipsOfNine = golden_path("wan_clips");

inline std::string longcat_video_model(const fs::path& model = kLongCatVideo / "model") {
  return "--model '" + model.string() + "' --dtype fp32 ";
}

/// Four clips of nine frames.
inline std::string clips_of_nine() {
  return option("dataset_metadata_path", kClipsOfNine / "metadata.csv") + "--height 48 --width 64 --num_frames 9 --frame_rate 16 ";
}

}  // namespace burnish::test
