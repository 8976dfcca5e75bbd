#include <ATen/core/Tensor.h>

#include "diffusion/flow_match.h"
#include "family.h"

// What a run puts together. Each unit declares what it reads, writes and runs; the trainer finds out from that what is computed once, what
// at every visit of a sample, and what has to be kept.
namespace burnish::models::skeleton {

UnitGroups SkeletonModel::units() {
  using pipeline::Scope;
  UnitGroups groups;
  groups.encode_prompt = {
      {"encode_text", {"prompt"}, {"text_features"}, {"text_encoder.body"}, [this](Scope& s) {
         s.uses("text_encoder.body");
         s.write("text_features", loaded<TextEncoder>("text_encoder.body").body->forward(s.text("prompt")));
       }},
      {"project_text", {"text_features"}, {"text_embedding"}, {"text_encoder.projector"}, [this](Scope& s) {
         s.uses("text_encoder.projector");
         s.write("text_embedding", loaded<TextEncoder>("text_encoder.projector").projector->forward(s.tensor("text_features")));
       }}};
  groups.encode_image = {{"encode_image", {"image"}, {"latents"}, {"vae"}, [this](Scope& s) {
                            s.uses("vae");
                            s.write("latents", loaded<Autoencoder>("vae").encode(s.tensor("image").to(options_.device)));
                          }}};
  groups.add_noise = {{"add_noise", {"latents", "noise", "sigma"}, {"noisy", "target"}, {}, [this](Scope& s) {
                         s.write("noisy", process_.add_noise(s.tensor("latents"), s.tensor("noise"), s.tensor("sigma")));
                         s.write("target", process_.target(s.tensor("latents"), s.tensor("noise"), s.tensor("sigma")));
                       }}};
  groups.denoise = {{"denoise", {"noisy", "sigma", "text_embedding"}, {"prediction"}, {"dit"}, [this](Scope& s) {
                       s.uses("dit");
                       s.write("prediction",
                               loaded<Denoiser>("dit").forward(s.tensor("noisy"), s.tensor("sigma"), s.tensor("text_embedding")));
                     }}};
  groups.loss = {{"loss", {"prediction", "target"}, {"loss"}, {}, [](Scope& s) {
                    s.write("loss", diffusion::squared_error(s.tensor("prediction"), s.tensor("target")));
                  }}};
  groups.decode = {{"decode", {"latents"}, {"image"}, {"vae"}, [this](Scope& s) {
                      s.uses("vae");
                      s.write("image", loaded<Autoencoder>("vae").decode(s.tensor("latents")));
                    }}};
  return groups;
}

}  // namespace burnish::models::skeleton
