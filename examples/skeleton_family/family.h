#pragma once
#include "model.h"
#include "models/family.h"
#include "models/shared_components.h"

namespace burnish::models::skeleton {

/// One safetensors file with the tensors of every component below its name: "dit.patch_in.weight", "text_encoder.body.bytes.weight".
class SkeletonModel : public Model {
 public:
  SkeletonModel(const ModelFiles& files, const ModelOptions& options);

  UnitGroups units_of(const Expert& expert) override;

 private:
  Config config_;
  AutoencoderPart autoencoder_;
};

extern const Family kFamily;

}  // namespace burnish::models::skeleton
