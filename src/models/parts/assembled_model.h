#pragma once
#include "models/model/model.h"
#include "models/parts/shared_components.h"

namespace burnish::models {

/// A model that is put together from shared parts: text encoders and an autoencoder.
class AssembledModel : public Model {
 protected:
  using Model::add;
  using Model::Model;

  void add(const NamedRecipe& component) { add(component.recipe, component.names); }
  void add(const std::vector<NamedRecipe>& components);
  /// Adds an autoencoder; the latent space becomes that of its pictures, and the denoiser makes a token of `patch` × `patch` latents.
  void add(const AutoencoderPart& autoencoder, int64_t patch);
  /// Returns the groups that are equal in all families with one of these autoencoders: encode_image, add_noise and decode, and
  /// encode_references where the names have a reference column.
  UnitGroups shared_units(const AutoencoderPart& autoencoder);
};

}  // namespace burnish::models
