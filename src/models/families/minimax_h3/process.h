#pragma once
#include "diffusion/flow_process.h"

namespace burnish::models::minimax_h3 {

/// The flow of MiniMax-H3, which trains as it draws unless it is asked otherwise: times are uniform before the shift that steps have, and
/// none counts more than another. DiffSynth-Studio's ("diffsynth") are off that curve, with a bell of weights.
class Process final : public diffusion::FlowProcess {
 public:
  explicit Process(double shift);
  double draw_time(const diffusion::TimestepOptions& options, uint64_t key, int64_t num_image_tokens) const override;
  double loss_weight(const diffusion::LossOptions& options, double time) const override;

 private:
  double shift_;
};

}  // namespace burnish::models::minimax_h3
