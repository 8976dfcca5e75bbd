#include <ATen/TensorOperators.h>

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
  // What a run does not name in extra_inputs is read by no unit.
  std::vector<std::string> reads{"noisy", "sigma", "text_embedding"};
  if (hears()) {
    groups.encode_references = {{"hear", {kVoice.name}, {"loudness"}, {}, [](Scope& s) {
                                   s.write("loudness", s.tensor(kVoice.name).square().mean({1, 2}, /*keepdim=*/true).sqrt());
                                 }}};
    reads.emplace_back("loudness");
  }
  const auto& dit = expert.component;
  groups.denoise = {{"denoise", reads, {"prediction"}, {dit}, [this, dit](Scope& s) {
                       s.uses(dit);
                       auto text_BLE = s.tensor("text_embedding");
                       if (hears()) text_BLE = text_BLE + s.tensor("loudness").to(text_BLE.options());
                       s.write("prediction", loaded<Denoiser>(dit).forward(s.tensor("noisy"), s.tensor("sigma"), text_BLE));
                     }}};
  return groups;
}

}  // namespace burnish::models::skeleton
