#pragma once
#include "base/column.h"
#include "model.h"
#include "models/parts/assembled_model.h"
#include "models/registry.h"

namespace burnish::models::skeleton {

/// The column of a voice, which what is denoised is as loud as: a file of sound, or else the sound of the row's clip.
inline const Column kVoice{.name = "voice", .is = Column::Is::sound, .words = {"the example's denoiser"}, .channels = 2, .rate = 8000};

/// One safetensors file with the tensors of every component below its name: "dit.patch_in.weight", "text_encoder.body.bytes.weight".
class SkeletonModel : public AssembledModel {
 public:
  SkeletonModel(const ModelFiles& files, const ModelOptions& options);

  UnitGroups units_of(const Expert& expert) override;

 private:
  bool hears() const { return options_.extra_inputs.contains(kVoice.name); }

  Config config_;
  AutoencoderPart autoencoder_;
};

extern const Family kFamily;

}  // namespace burnish::models::skeleton
