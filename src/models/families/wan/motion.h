#pragma once
#include "base/column.h"
#include "models/families/wan/config.h"
#include "models/model/components.h"
#include "nn/linear.h"

namespace burnish::models::wan {

/// The name of the module where it trains, and the column that it reads, as DiffSynth-Studio has them.
inline const std::string kMotion = "motion_controller";
inline const Column kMotionInput{.name = "motion_bucket_id", .is = Column::Is::numbers, .words = {"a motion controller", "50"}};

/// Adds to what is made of the time how much is to move: a number from 0 to 100 (DiffSynth-Studio: models/wan_video_motion_controller.py).
/// It is computed and kept in fp32, as the time is.
class MotionController : public nn::Module {
 public:
  struct Config {
    int64_t channels = 256;  ///< sinusoids of the number
    int64_t width = 1536;    ///< of the transformer
  };
  /// Throws a data Error where its last layer does not make the six parts of a block.
  static Config detect(const io::Shapes& shapes);
  MotionController(const Config& config, const at::TensorOptions& options);

  /// Makes of numbers [B, 1] what is added to the modulation of all blocks, [B, 6 D].
  at::Tensor forward(const at::Tensor& number_B1) const;

 private:
  int64_t channels_;
  nn::Linear first_, second_, third_;
};

/// Finds it among a run's files.
Source find_motion(const ModelFiles& files);

}  // namespace burnish::models::wan
