#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/model/model.h"
#include "models/parts/shared_components.h"
#include "models/parts/shared_units.h"

// Modules beside a transformer: ControlNets, adapters that read pictures, and whatever else a model reads beside texts.
namespace burnish::models {

/// The parts of a model that units of a module beside its transformer may run.
struct ModelParts {
  std::string dit;  ///< the transformer of the expert whose units they are
  std::string vae;  ///< the autoencoder, by which `encode` encodes
  Encode encode;
  int64_t downsampling = 8;  ///< pixels along a side of a latent

  /// Returns the mean of latents of pictures [B, 3, H, W].
  at::Tensor latents_of(const at::Tensor& image_B3HW) const { return encode(image_B3HW).mean_BCHW; }
};

/// Holds what some models have beside a transformer that reads texts: a module, or columns of their own, or both. Each is made for every
/// run, and does nothing where neither the files nor the run's columns ask for it. `Inputs` are the transformer's.
template <class Inputs, class Parts = ModelParts>
class SideModule {
 public:
  virtual ~SideModule() = default;
  SideModule(const SideModule&) = delete;
  SideModule& operator=(const SideModule&) = delete;

  /// Returns what is to be loaded for it once; `dit` are the transformer's names.
  virtual std::vector<NamedRecipe> components(const ComponentNames& /*dit*/) const { return {}; }
  /// Adds the run's columns that it reads, and the values that they become.
  virtual void add_names(Names& /*names*/) const {}
  /// Adds units from its columns to the values that the transformer's units read: the first that denoises reads the time, the last the
  /// latents.
  virtual void add_units(UnitGroups& /*groups*/, const Parts& /*parts*/) {}
  /// Returns the channels that stand right behind the noisy latents; undefined where none do.
  virtual at::Tensor behind_noise(pipeline::Scope& /*scope*/, const at::Tensor& /*noisy*/) { return {}; }
  /// Puts its values where this transformer takes them.
  virtual void give(pipeline::Scope& /*scope*/, const std::string& /*dit*/, Inputs& /*in*/) {}

 protected:
  /// Both must outlive this.
  SideModule(const ModelOptions& options, Components& components) : options_(options), components_(components) {}

  /// Tells whether the run names a column.
  bool has(std::string_view column) const { return options_.extra_inputs.contains(std::string(column)); }
  /// Returns a loaded component or part.
  template <class Module>
  Module& loaded(const std::string& name) const {
    return static_cast<Module&>(components_.module(name));
  }
  /// Returns a value where the model computes, in its dtype.
  at::Tensor here(const pipeline::Scope& scope, const std::string& name) const {
    return scope.tensor(name).to(options_.device, options_.dtype);
  }

  const ModelOptions& options_;
  Components& components_;
};

/// Makes the recipe of a module that is built of its configuration alone.
template <class Module, class Config>
Recipe side_recipe(const std::string& name, const char* what, const Source& source, const Config& config) {
  return {.name = name, .what = what, .source = source, .build = [config](const std::string&, const at::TensorOptions& options) {
            return std::make_unique<Module>(config, options);
          }};
}

/// Makes latents [1, C, h, w] of a picture that controls. With a mask (undefined: none) the picture is black where the mask is white, and
/// behind the latents stands a further channel: 1 where the picture is kept, between 0 and 1 on gray (DiffSynth-Studio:
/// FluxImageUnit_ControlNet of pipelines/flux_image.py).
at::Tensor control_latents(const at::Tensor& image_3HW, const at::Tensor& mask_3HW, const ModelParts& parts);

/// Adds units behind those that encode what the denoiser reads, and has its last unit read what they write.
void add_encoding(UnitGroups& groups, const pipeline::Units& units);

}  // namespace burnish::models
