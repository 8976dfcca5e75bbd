#pragma once
#include <string>

#include "diffusion/flow_process.h"

namespace burnish::models::minimax_h3 {

/// The latents of sound as a stream.
inline const std::string kSound = "audio_latents";

/// The flow of MiniMax-H3, which trains as it draws unless it is asked otherwise: times are uniform before the shift that steps have, and
/// none counts more than another. DiffSynth-Studio's ("diffsynth") are off that curve, with a bell of weights.
class Process final : public diffusion::FlowProcess {
 public:
  /// Takes the shifts of frames and of sound, both of one base.
  Process(double shift, double of_sound);
  double draw_time(const diffusion::TimestepOptions& options, uint64_t key, int64_t num_image_tokens) const override;
  double loss_weight(const diffusion::LossOptions& options, double time) const override;
  double shift_of(std::string_view stream) const override;

 private:
  double shift_, sound_over_frames_;
};

}  // namespace burnish::models::minimax_h3
