#pragma once
#include "diffusion/flow_process.h"
#include "model.h"
#include "models/family.h"

namespace burnish::models::skeleton {

/// One safetensors file with the tensors of every component below its name: "dit.patch_in.weight", "text_encoder.body.bytes.weight".
class SkeletonModel : public Model {
 public:
  SkeletonModel(const ModelFiles& files, const ModelOptions& options);

  UnitGroups units() override;
  const diffusion::Process& process() const override { return process_; }
  std::vector<int64_t> latent_shape(const Extent& extent) const override;
  int64_t num_tokens(at::IntArrayRef latent_shape) const override { return latent_shape[1] * latent_shape[2]; }
  int64_t size_division() const override { return config_.patch; }

 private:
  Config config_;
  diffusion::FlowProcess process_{{}};
};

extern const Family kFamily;

}  // namespace burnish::models::skeleton
