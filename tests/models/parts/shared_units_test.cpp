// Latents that are drawn at every visit, beside a draw from the autoencoder's own moments.
#include "models/parts/shared_units.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "models/vae/autoencoder_kl.h"
#include "tests/golden.h"

using namespace burnish;
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

TEST(Latents, ADrawInTheModelsSpaceIsTheDrawMappedThere) {
  at::NoGradGuard no_grad;
  auto file = test::golden("kl_shifted.safetensors");
  auto weights = file.below("w.");
  auto config =
      vae::kl_config(nlohmann::json::parse(file.metadata().at("config")), io::shapes_in_our_names(weights, vae::kl_keys(weights)));
  vae::AutoencoderKL model(config, at::TensorOptions());
  test::load_weights(model, weights, vae::kl_keys(weights));
  auto noise = at::randn_like(on_device(file.tensor("out.mean")));
  auto raw = on_device(file.tensor("out.mean")) + at::exp(0.5 * on_device(file.tensor("out.logvar"))) * noise;
  auto image = on_device(file.tensor("in.image"));
  auto units = latent_units("sample", "vae", [&](const at::Tensor& x) { return model.encode(x); });
  pipeline::Values values{{"image", image}, {"latent_noise", noise}};
  pipeline::run(units, values);
  EXPECT_LE(relative_error(std::get<at::Tensor>(values.at("latents")), model.to_model(raw)), tolerance(1e-5));
  EXPECT_GT(relative_error(std::get<at::Tensor>(values.at("latents")), model.to_model(on_device(file.tensor("out.mean")))), 1e-3);
}
