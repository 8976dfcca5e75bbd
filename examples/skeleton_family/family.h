#pragma once
#include "diffusion/flow_process.h"
#include "model.h"
#include "models/family.h"

namespace burnish::models::skeleton {

/// One safetensors file with the tensors of every component below its name: "dit.patch_in.weight", "text_encoder.body.bytes.weight".
class SkeletonModel : public Model {
 public:
  SkeletonModel(const ModelEntry& entry, const ModelOptions& options);

  std::string_view family() const override { return "skeleton_family"; }
  std::string variant() const override { return "skeleton"; }
  std::vector<Component> components() const override;
  std::vector<std::string> parts(const std::string& component) const override;
  Provenance provenance(const std::string& component) const override;
  void check(const std::string& component) override;
  std::unique_ptr<nn::Module> skeleton(const std::string& component) const override;
  std::vector<std::string> high_precision(const std::string& component) const override;
  void load(const std::string& component) override;
  void unload(const std::string& component) override { loaded_.erase(component); }
  nn::Module& module(const std::string& component) override;
  std::string denoiser() const override { return "dit"; }
  UnitGroups units() override;
  std::vector<int64_t> latent_shape(int64_t height, int64_t width) const override;
  int64_t num_tokens(at::IntArrayRef latent_shape) const override { return latent_shape[1] * latent_shape[2]; }
  int64_t size_division() const override { return config_.patch; }
  const diffusion::Process& process() const override { return process_; }
  std::vector<std::string> prompt_values() const override { return {"text_embedding"}; }
  LayerNames layer_names(const std::string& component) const override { return {"", component + ".", "lora_" + component + "_"}; }
  std::string default_lora_targets(const std::string& component) const override;

 private:
  bool holds(const std::string& component) const;
  io::TensorSource tensors(const std::string& component) const;
  template <class T>
  T& loaded(const std::string& component) {
    return static_cast<T&>(module(component));
  }

  ModelEntry entry_;
  ModelOptions options_;
  Config config_;
  diffusion::FlowProcess process_{{}};
  std::map<std::string, std::unique_ptr<nn::Module>> loaded_;
};

extern const Family kFamily;

}  // namespace burnish::models::skeleton
