// Autoencoders in tiles: parity with diffusers' (tests/golden/make_tiles.py), and what they save.
#include "models/vae/tiles.h"

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/vae/causal_autoencoder.h"
#include "tests/allocations.h"
#include "tests/golden.h"

using namespace burnish;
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

constexpr int64_t kTile = 32;

std::unique_ptr<vae::AutoencoderKL> kl(int64_t tile_size) {
  auto file = test::golden("kl_shifted.safetensors");
  auto weights = file.below("w.");
  auto keys = vae::kl_keys(weights);
  auto config = vae::kl_config(nlohmann::json::parse(file.metadata().at("config")), io::shapes_in_our_names(weights, keys));
  config.tile_size = tile_size;
  auto model = std::make_unique<vae::AutoencoderKL>(config, at::TensorOptions());
  test::load_weights(*model, weights, keys);
  return model;
}

std::unique_ptr<vae::CausalAutoencoder> causal(int64_t tile_size) {
  const std::string folder = "qwen_image_pipeline/model/vae/";
  auto weights = vae::causal_tensors(test::golden(folder + "diffusion_pytorch_model.safetensors"));
  auto keys = vae::causal_keys(weights);
  auto config = vae::causal_config(io::read_json(test::golden_path(folder + "config.json")), io::shapes_in_our_names(weights, keys));
  config.tile_size = tile_size;
  auto model = std::make_unique<vae::CausalAutoencoder>(config, at::TensorOptions());
  test::load_weights(*model, weights, keys);
  model->visit_parameters([](const std::string&, at::Tensor& p) { p = p.to(at::kFloat); });
  return model;
}

}  // namespace

TEST(Tiles, OfTheKlAutoencoderAreDiffusers) {
  at::NoGradGuard no_grad;
  auto file = test::golden("tiles_kl.safetensors");
  auto model = kl(kTile), whole = kl(0);
  auto image = on_device(file.tensor("in.image"));
  auto moments = model->encode(image);
  EXPECT_LE(relative_error(model->from_model(moments.mean_BCHW), file.tensor("out.mean")), tolerance(1e-5));
  EXPECT_LE(relative_error(moments.logvar_BCHW - whole->encode(image).logvar_BCHW,
                           on_device(file.tensor("out.logvar")) - whole->encoder.forward(image).logvar_BCHW),
            tolerance(1e-4));
  EXPECT_LE(relative_error(model->decode(model->to_model(on_device(file.tensor("in.latents")))), file.tensor("out.decoded")),
            tolerance(1e-5));
  EXPECT_GE(relative_error(whole->decode(model->to_model(on_device(file.tensor("in.latents")))), file.tensor("out.decoded")), 1e-3);
}

TEST(Tiles, OfTheCausalAutoencoderAreDiffusers) {
  at::NoGradGuard no_grad;
  auto file = test::golden("tiles_causal.safetensors");
  vae::CausalConfig numbers;
  auto per_channel = [](const std::vector<double>& values) {
    return at::tensor(values).to(test::device(), at::kFloat).view({1, -1, 1, 1});
  };
  auto mean = per_channel(numbers.latents_mean), deviation = per_channel(numbers.latents_std);
  auto model = causal(kTile);
  auto moments = model->encode(on_device(file.tensor("in.image")));
  EXPECT_LE(relative_error(moments.mean_BCHW * deviation + mean, file.tensor("out.mean")), tolerance(1e-5));
  EXPECT_LE(relative_error(moments.logvar_BCHW + 2 * deviation.log(), file.tensor("out.logvar")), tolerance(1e-5));
  auto latents = (on_device(file.tensor("in.latents")) - mean) / deviation, decoded = file.tensor("out.decoded").clamp(-1, 1);
  EXPECT_LE(relative_error(model->decode(latents), decoded), tolerance(1e-5));
  EXPECT_GE(relative_error(causal(0)->decode(latents), decoded), 1e-3);
}

TEST(Tiles, LeavePicturesNoLargerThanOneAsTheyAre) {
  at::NoGradGuard no_grad;
  auto image = on_device(at::randn({1, 3, kTile, kTile}));
  auto whole = kl(0), tiled = kl(kTile);
  auto latents = whole->encode(image).mean_BCHW;
  EXPECT_TRUE(at::equal(latents, tiled->encode(image).mean_BCHW));
  EXPECT_TRUE(at::equal(whole->decode(latents), tiled->decode(latents)));
}

/// What is put together of tiles that know where they lie is what lies there.
TEST(Tiles, ArePutWhereTheyWereTaken) {
  auto x = at::arange(2 * 3 * 40 * 56, at::kDouble).view({2, 3, 40, 56});
  auto doubled = vae::in_tiles(x, 16, 32, [](const at::Tensor& tile) { return tile.repeat_interleave(2, 2).repeat_interleave(2, 3); });
  EXPECT_LE(relative_error(doubled, x.repeat_interleave(2, 2).repeat_interleave(2, 3)), 1e-15);
}

TEST(Tiles, TakeTheMemoryOfATileForALargerPicture) {
  if (!test::device().is_cpu()) GTEST_SKIP() << "what is counted is main memory";
  at::NoGradGuard no_grad;
  auto image = at::randn({1, 3, 16 * kTile, 16 * kTile});
  auto peak = [&](int64_t tile_size) {
    auto model = kl(tile_size);
    test::Allocations counter;
    auto mean = model->encode(image).mean_BCHW;
    model->decode(mean);
    return counter.peak();
  };
  // What is decoded is there in full; the whole decoder keeps several times its channels.
  EXPECT_LE(4 * peak(2 * kTile), peak(0));
}

TEST(Tiles, CarryGradients) {
  auto model = kl(kTile);
  auto image = on_device(at::randn({1, 3, 48, 48})).set_requires_grad(true);
  model->encode(image).mean_BCHW.square().sum().backward();
  EXPECT_GT(image.grad().abs().min().item<float>(), 0);
}
