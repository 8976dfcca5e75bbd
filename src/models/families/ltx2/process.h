#pragma once
#include "diffusion/flow_process.h"

namespace burnish::models::ltx2 {

/// Returns the steps of LTX-2, which its pipelines' scheduler_config.json says: shifted by the number of tokens, and the last before data
/// at a tenth of noise.
diffusion::FlowSamplerConfig published_steps();

/// The flow of LTX-2, which trains as it draws unless it is asked otherwise: times are uniform before the shift and the stretch that steps
/// have, and none counts more than another. DiffSynth-Studio's ("diffsynth") are those of 4,096 tokens, with a bell of weights.
class Process final : public diffusion::FlowProcess {
 public:
  explicit Process(const diffusion::FlowSamplerConfig& steps);
  double draw_time(const diffusion::TimestepOptions& options, uint64_t key, int64_t num_image_tokens) const override;
  double loss_weight(const diffusion::LossOptions& options, double time) const override;

 private:
  diffusion::FlowSamplerConfig steps_;
};

}  // namespace burnish::models::ltx2
