#include "models/shared_units.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>

#include "diffusion/flow_match.h"

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

pipeline::Units noise_units(const diffusion::Process& process) {
  auto time = process.time_name();
  return {{"add_noise", {"latents", "noise", time}, {"noisy", "target"}, {}, [&process, time](pipeline::Scope& s) {
             s.write("noisy", process.add_noise(s.tensor("latents"), s.tensor("noise"), s.tensor(time)));
             s.write("target", process.target(s.tensor("latents"), s.tensor("noise"), s.tensor(time)));
           }}};
}

pipeline::Units loss_units() {
  return {{"loss", {"prediction", "target"}, {"loss"}, {}, [](pipeline::Scope& s) {
             s.write("loss", diffusion::squared_error(s.tensor("prediction"), s.tensor("target")));
           }}};
}

pipeline::Units decode_units(const std::string& vae, std::function<at::Tensor(const at::Tensor&)> decode) {
  return {{"decode", {"latents"}, {"image"}, {vae}, [vae, decode](pipeline::Scope& s) {
             s.uses(vae);
             s.write("image", decode(s.tensor("latents")));
           }}};
}

}  // namespace burnish::models
