#pragma once
#include <cstdint>
#include <string>

namespace burnish::train {

/// The options of single objectives. Each lists and checks its own in its file.
struct ObjectiveOptions {
  std::string distill_spacing = "default";
  double beta_dpo = 5000;
  int64_t student_num_inference_steps = 8, teacher_num_inference_steps = 50;
  double teacher_cfg_scale = 2;
};

}  // namespace burnish::train
