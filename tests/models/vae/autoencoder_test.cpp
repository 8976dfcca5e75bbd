// Parity of the KL autoencoder with diffusers' AutoencoderKL, both ways, and its original names.
#include <nlohmann/json.hpp>

#include "models/vae/autoencoder_kl.h"
#include "tests/golden.h"

using namespace burnish;
using namespace burnish::models;
using test::relative_error;

namespace {

vae::KlConfig config_of(const io::TensorSource& file) {
  auto weights = file.below("w.");
  return vae::kl_config(nlohmann::json::parse(file.metadata().at("config")), io::shapes_in_our_names(weights, vae::kl_keys(weights)));
}

}  // namespace

TEST(AutoencoderParity, MomentsAndDecoded) {
  at::NoGradGuard no_grad;
  for (const char* name : {"kl_shifted.safetensors", "kl_quant_conv.safetensors"}) {
    auto file = test::golden(name);
    vae::AutoencoderKL model(config_of(file), at::TensorOptions());
    test::load_weights(model, file.below("w."), vae::kl_keys(file.below("w.")));
    auto moments = model.encoder.forward(file.tensor("in.image"));
    EXPECT_LE(relative_error(moments.mean_BCHW, file.tensor("out.mean")), 1e-5) << name;
    EXPECT_LE(relative_error(moments.logvar_BCHW, file.tensor("out.logvar")), 1e-5) << name;
    EXPECT_LE(relative_error(model.decoder.forward(file.tensor("in.latents")), file.tensor("out.decoded")), 1e-5) << name;
    EXPECT_LE(relative_error(model.from_model(model.to_model(moments.mean_BCHW)), moments.mean_BCHW), 1e-5);
  }
}

TEST(AutoencoderParity, ShiftAndScaleAreRead) {
  auto config = config_of(test::golden("kl_shifted.safetensors"));
  EXPECT_DOUBLE_EQ(config.shift_factor, 0.1159);
  EXPECT_DOUBLE_EQ(config.scaling_factor, 0.3611);
  EXPECT_EQ(config.downsampling(), 4);
}
