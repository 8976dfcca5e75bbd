#include "family.h"
#include "models/parts/shared_units.h"

// What a run puts together. Each unit declares what it reads, writes and runs; the trainer finds out from that what is computed once, what
// at every visit of a sample, and what has to be kept.
namespace burnish::models::skeleton {

UnitGroups SkeletonModel::units_of(const Expert& expert) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  // Its autoencoder makes no distribution: latents are what it makes, whatever the run asks for.
  groups.encode_image = latent_units("mean", "vae", encoding_by(autoencoder_, components_, options_.device));
  groups.encode_prompt = {{"encode_text",
                           {"prompt"},
                           {"text_features"},
                           {"text_encoder.body"},
                           [this](Scope& s) {
                             s.uses("text_encoder.body");
                             s.write("text_features", loaded<TextEncoder>("text_encoder.body").body->forward(s.text("prompt")));
                           }},
                          {"project_text", {"text_features"}, {"text_embedding"}, {"text_encoder.projector"}, [this](Scope& s) {
                             s.uses("text_encoder.projector");
                             s.write("text_embedding",
                                     loaded<TextEncoder>("text_encoder.projector").projector->forward(s.tensor("text_features")));
                           }}};
  const auto& dit = expert.component;
  groups.denoise = {{"denoise", {"noisy", "sigma", "text_embedding"}, {"prediction"}, {dit}, [this, dit](Scope& s) {
                       s.uses(dit);
                       s.write("prediction",
                               loaded<Denoiser>(dit).forward(s.tensor("noisy"), s.tensor("sigma"), s.tensor("text_embedding")));
                     }}};
  return groups;
}

}  // namespace burnish::models::skeleton
