#include "models/latents.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>

namespace burnish::models {

pipeline::Units latent_units(const std::string& kind, const std::string& vae, std::function<Moments(const at::Tensor&)> encode) {
  using pipeline::Scope;
  if (kind != "sample") {
    return {{"encode_image", {"image"}, {"latents"}, {vae}, [vae, encode](Scope& s) {
               s.uses(vae);
               s.write("latents", encode(s.tensor("image")).mean_BCHW);
             }}};
  }
  return {{"encode_image",
           {"image"},
           {"latents_mean", "latents_logvar"},
           {vae},
           [vae, encode](Scope& s) {
             s.uses(vae);
             auto moments = encode(s.tensor("image"));
             s.write("latents_mean", moments.mean_BCHW);
             s.write("latents_logvar", moments.logvar_BCHW);
           }},
          {"draw_latents", {"latents_mean", "latents_logvar", "latent_noise"}, {"latents"}, {}, [](Scope& s) {
             s.write("latents", s.tensor("latents_mean") + at::exp(s.tensor("latents_logvar") / 2) * s.tensor("latent_noise"));
           }}};
}

}  // namespace burnish::models
