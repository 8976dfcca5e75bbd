#pragma once
#include "diffusion/flow_process.h"
#include "model.h"
#include "models/file_model.h"

namespace burnish::models::skeleton {

/// One safetensors file with the tensors of every component below its name: "dit.patch_in.weight", "text_encoder.body.bytes.weight".
class SkeletonModel : public FileModel {
 public:
  SkeletonModel(const ModelFiles& files, const ModelOptions& options);

  std::string_view family() const override { return "skeleton_family"; }
  std::string variant() const override { return "skeleton"; }
  std::vector<std::string> parts(const std::string& component) const override;
  std::vector<std::string> high_precision(const std::string& component) const override;
  std::string denoiser() const override { return "dit"; }
  UnitGroups units() override;
  std::vector<int64_t> latent_shape(int64_t height, int64_t width) const override;
  int64_t num_tokens(at::IntArrayRef latent_shape) const override { return latent_shape[1] * latent_shape[2]; }
  int64_t size_division() const override { return config_.patch; }
  const diffusion::Process& process() const override { return process_; }
  std::vector<std::string> prompt_values() const override { return {"text_embedding"}; }
  std::string default_lora_targets(const std::string& component) const override;

 private:
  std::unique_ptr<nn::Module> build(const std::string& component, const at::TensorOptions& options) const override;

  Config config_;
  diffusion::FlowProcess process_{{}};
};

extern const Family kFamily;

}  // namespace burnish::models::skeleton
