#pragma once
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>

#include <filesystem>

#include "family.h"
#include "io/safetensors.h"

// The family of examples/skeleton_family as a model file with random weights.
namespace burnish::test {

/// With two experts, or with one denoiser.
inline void save_skeleton(const std::filesystem::path& file, int num_experts = 2) {
  models::skeleton::Config config;
  io::NamedTensors tensors;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  auto take = [&](const std::string& component, nn::Module& module) {
    module.visit_parameters([&](const std::string& path, at::Tensor& p) {
      tensors.emplace_back(component + "." + path,
                           p.normal_(0, p.dim() > 1 ? 0.3 : 0.1, generator) + (path.ends_with("norm.weight") ? 1 : 0));
    });
  };
  models::skeleton::TextEncoder text(config, {}, true, true);
  models::skeleton::Autoencoder vae(config, {});
  models::skeleton::Denoiser dit(config, {}), dit_2(config, {});
  take("text_encoder", text);
  take("vae", vae);
  take("dit", dit);
  if (num_experts == 2) take("dit_2", dit_2);
  io::save_safetensors(file, tensors);
}

inline std::unique_ptr<models::Model> open_skeleton(const std::filesystem::path& file) {
  models::ModelOptions options;
  options.dtype = at::kFloat;
  return models::skeleton::kFamily.open(models::open_model_files({{file.string()}, "", ""}), options);
}

}  // namespace burnish::test
