#pragma once
#include "io/safetensors.h"
#include "train/run/hook.h"

namespace burnish::train {

/// Returns what each file of weights says of the run that it is of: burnish's own entries, and those of Stability-AI/ModelSpec 1.0.1 and
/// kohya-ss/sd-scripts that programs show which list LoRAs. No time and no path is in it, so that equal runs write equal files.
io::Metadata run_metadata(const Training& training);

/// Returns what a file says of the step that it was saved after, counted from 1 (0: nothing was trained).
io::Metadata step_metadata(const Course& course, int64_t step);

}  // namespace burnish::train
