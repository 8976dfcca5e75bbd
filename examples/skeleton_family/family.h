#pragma once
#include "model.h"
#include "models/parts/assembled_model.h"
#include "models/registry.h"

namespace burnish::models::skeleton {

/// One safetensors file with the tensors of every component below its name: "dit.patch_in.weight", "text_encoder.body.bytes.weight".
class SkeletonModel : public AssembledModel {
 public:
  SkeletonModel(const ModelFiles& files, const ModelOptions& options);

  UnitGroups units_of(const Expert& expert) override;

 private:
  Config config_;
  AutoencoderPart autoencoder_;
};

extern const Family kFamily;

}  // namespace burnish::models::skeleton
