#include "models/parts/assembled_model.h"

#include "models/parts/shared_units.h"

namespace burnish::models {

void AssembledModel::add(const std::vector<NamedRecipe>& components) {
  for (const auto& component : components) add(component);
}

void AssembledModel::add(const AutoencoderPart& autoencoder, int64_t patch) {
  add(autoencoder.recipe, autoencoder.names);
  latent_space_ = picture_space(autoencoder.channels, autoencoder.downsampling, patch);
}

UnitGroups AssembledModel::shared_units(const AutoencoderPart& autoencoder) {
  const auto& name = autoencoder.recipe.name;
  auto encode = encoding_by(autoencoder, components_, options_.device);
  UnitGroups groups;
  groups.encode_image = latent_units(options_.latents, name, encode);
  if (!names_.references.column.empty()) groups.encode_references = reference_picture_units(name, encode);
  groups.add_noise = noise_units(process(), latent_space().streams);
  groups.decode = decode_units(
      name, [this, name, decode = autoencoder.decode](const at::Tensor& latents) { return decode(components_.module(name), latents); });
  return groups;
}

}  // namespace burnish::models
