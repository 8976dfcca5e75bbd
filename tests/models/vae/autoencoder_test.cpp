// Parity of the KL autoencoder with diffusers' AutoencoderKL, both ways, and its original names.
#include <nlohmann/json.hpp>

#include "models/vae/autoencoder_kl.h"
#include "tests/golden.h"
#include "tests/models/compared.h"

using namespace burnish;
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

vae::KlConfig config_of(const io::TensorSource& file) {
  auto weights = file.below("w.");
  return vae::kl_config(nlohmann::json::parse(file.metadata().at("config")), io::shapes_in_our_names(weights, vae::kl_keys(weights)));
}

}  // namespace

TEST(AutoencoderParity, MomentsAndDecoded) {
  at::NoGradGuard no_grad;
  for (const char* name : {"kl_shifted.safetensors", "kl_quant_conv.safetensors", "kl_large.safetensors"}) {
    auto file = test::golden(name);
    vae::AutoencoderKL model(config_of(file), at::TensorOptions());
    test::load_weights(model, file.below("w."), vae::kl_keys(file.below("w.")));
    auto moments = model.encoder.forward(on_device(file.tensor("in.image")));
    EXPECT_LE(relative_error(moments.mean_BCHW, file.tensor("out.mean")), tolerance(1e-5)) << name;
    EXPECT_LE(relative_error(moments.logvar_BCHW, file.tensor("out.logvar")), tolerance(1e-5)) << name;
    EXPECT_LE(relative_error(model.decoder.forward(on_device(file.tensor("in.latents"))), file.tensor("out.decoded")), tolerance(1e-5))
        << name;
    EXPECT_LE(relative_error(model.from_model(model.to_model(moments.mean_BCHW)), moments.mean_BCHW), tolerance(1e-5));
  }
}

// Decision 0005: the activations of kl_large leave the range of fp16, as those of published autoencoders do; fp32 is exact (see above).
TEST(AutoencoderParity, HalfPrecisionWouldOverflow) {
  at::NoGradGuard no_grad;
  auto file = test::golden("kl_large.safetensors");
  vae::AutoencoderKL model(config_of(file), at::TensorOptions());
  test::load_weights(model, file.below("w."), vae::kl_keys(file.below("w.")));
  model.visit_parameters([](const std::string&, at::Tensor& p) {
    EXPECT_TRUE(p.to(at::kHalf).isfinite().all().item<bool>());
    p = p.to(at::kHalf);
  });
  EXPECT_FALSE(model.decoder.forward(on_device(file.tensor("in.latents")).to(at::kHalf)).isfinite().all().item<bool>());
  EXPECT_FALSE(model.encoder.forward(on_device(file.tensor("in.image")).to(at::kHalf)).mean_BCHW.isfinite().all().item<bool>());
}

TEST(AutoencoderParity, ShiftAndScaleAreRead) {
  auto config = config_of(test::golden("kl_shifted.safetensors"));
  EXPECT_DOUBLE_EQ(config.shift_factor, 0.1159);
  EXPECT_DOUBLE_EQ(config.scaling_factor, 0.3611);
  EXPECT_EQ(config.downsampling(), 4);

  auto unshifted = config_of(test::golden("kl_large.safetensors"));
  EXPECT_DOUBLE_EQ(unshifted.shift_factor, 0);
  EXPECT_DOUBLE_EQ(unshifted.scaling_factor, 0.13025);
  auto weights = test::golden("kl_large.safetensors").below("w.");
  auto alone = vae::kl_config(nullptr, io::shapes_in_our_names(weights, vae::kl_keys(weights)), {.scale = 0.18215});
  EXPECT_DOUBLE_EQ(alone.shift_factor, 0);
  EXPECT_DOUBLE_EQ(alone.scaling_factor, 0.18215);
}

TEST(AutoencoderParity, AttentionNamesOfTheFirstFilesAreRead) {
  auto file = test::golden("kl_quant_conv.safetensors").below("w.");
  auto old = file.renamed([](std::string name) {
    for (const auto& [now, then] :
         {std::pair<std::string, std::string>("to_q.", "query."), {"to_k.", "key."}, {"to_v.", "value."}, {"to_out.0.", "proj_attn."}}) {
      if (auto at = name.find(now); at != name.npos) return name.replace(at, now.size(), then);
    }
    return name;
  });
  EXPECT_TRUE(old.contains("encoder.mid_block.attentions.0.proj_attn.bias"));
  EXPECT_EQ(io::shapes_in_our_names(old, vae::kl_keys(old)), io::shapes_in_our_names(file, vae::kl_keys(file)));
}

TEST(AutoencoderConfig, IsComparedWithTheTensors) {
  auto file = test::golden("kl_quant_conv.safetensors");
  auto good = nlohmann::json::parse(file.metadata().at("config"));
  auto shapes = io::shapes_in_our_names(file.below("w."), vae::kl_keys(file.below("w.")));
  auto read = [&](const nlohmann::json& config) { vae::kl_config(config, shapes); };
  test::expect_compared(good, {"latent_channels", "layers_per_block", "in_channels", "out_channels"}, read);
  test::expect_refused(good, "block_out_channels", {{8, 16, 16}, {8, 16}, nlohmann::json::array()}, read);
  for (const char* key : {"use_quant_conv", "use_post_quant_conv"}) test::expect_refused(good, key, {false}, read);
  test::expect_refused(good, "norm_num_groups", {0, -4, 3, 16}, read);
  test::expect_refused(good, "scaling_factor", {0, -0.18215}, read);
}
