// Causal autoencoders on clips: parity with diffusers' (tests/golden/make_causal_video.py), and what a clip takes.
#include <c10/util/accumulate.h>

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "io/safetensors.h"
#include "models/vae/causal_autoencoder.h"
#include "models/vae/tiles.h"
#include "tests/allocations.h"
#include "tests/golden.h"
#include "tests/models/compared.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;
using vae::CausalFor;

namespace {

/// One of the golden files: its autoencoder for a use, in some dtype.
struct Golden {
  explicit Golden(const std::string& name, CausalFor use = CausalFor::clips, at::ScalarType dtype = at::kFloat, int64_t tile_size = 0)
      : file(test::golden(name + ".safetensors")) {
    auto weights = vae::causal_tensors(file.below("w."), use);
    auto keys = vae::causal_keys(weights, use);
    config = vae::causal_config(nlohmann::json::parse(file.metadata().at("config")), io::shapes_in_our_names(weights, keys));
    config.tile_size = tile_size;
    model = std::make_unique<vae::CausalAutoencoder>(config, at::TensorOptions());
    test::load_weights(*model, weights, keys);
    model->visit_parameters([&](const std::string&, at::Tensor& p) { p = p.to(dtype); });
    mean = per_channel(config.latents_mean, dtype);
    deviation = per_channel(config.latents_std, dtype);
  }
  static at::Tensor per_channel(const std::vector<double>& values, at::ScalarType dtype) {
    return at::tensor(values, at::kDouble).to(test::device(), dtype).view({1, -1, 1, 1, 1});
  }
  at::Tensor clip(at::ScalarType dtype = at::kFloat) const { return on_device(file.tensor("in.video")).to(dtype); }
  /// As a denoiser would make them.
  at::Tensor latents(at::ScalarType dtype = at::kFloat) const {
    return (on_device(file.tensor("in.latents")).to(dtype) - mean) / deviation;
  }

  io::TensorSource file;
  vae::CausalConfig config;
  std::unique_ptr<vae::CausalAutoencoder> model;
  at::Tensor mean, deviation;
};

}  // namespace

class CausalClips : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Causal, CausalClips, testing::Values("causal_video", "causal_video_residual"),
                         [](const auto& info) { return info.param; });

TEST_P(CausalClips, AreEncodedAndDecodedAsByDiffusers) {
  at::NoGradGuard no_grad;
  for (auto [dtype, limit] : {std::pair{at::kFloat, tolerance(1e-5)}, {at::kDouble, 1e-6}}) {  // what is expected is held in fp32
    Golden golden(GetParam(), CausalFor::clips, dtype);
    for (int64_t frames : {1, 5, 9}) {
      SCOPED_TRACE(frames);
      auto count = (frames + 3) / 4;
      auto expected = [&](const char* name, int64_t length) { return golden.file.tensor(name).narrow(2, 0, length); };
      auto moments = golden.model->encode(golden.clip(dtype).narrow(2, 0, frames));
      EXPECT_LE(relative_error(moments.mean_BCHW * golden.deviation + golden.mean, expected("out.mean", count)), limit);
      EXPECT_LE(relative_error(moments.logvar_BCHW + 2 * golden.deviation.log(), expected("out.logvar", count)), limit);
      EXPECT_LE(relative_error(golden.model->decode(golden.latents(dtype).narrow(2, 0, count)), expected("out.decoded", frames)), limit);
    }
  }
}

namespace {

/// cos(frequency · i²) for number i in the order of memory.
at::Tensor waves(at::IntArrayRef sizes, double frequency) {
  auto places = at::arange(c10::multiply_integers(sizes), at::kDouble);
  return on_device((frequency * places * places).cos().view(sizes));
}

}  // namespace

/// tests/golden/make_causal_lengths.py.
TEST_P(CausalClips, OfOneToSeventeenFramesAndOddSidesAreThoseOfDiffusers) {
  at::NoGradGuard no_grad;
  Golden golden(GetParam(), CausalFor::clips, at::kDouble);
  const auto expected = test::golden("causal_lengths.safetensors");
  const auto ratio = golden.config.downsampling(), height = 3 * ratio, width = 5 * ratio;
  for (int64_t frames : {1, 5, 9, 17}) {
    const auto name = GetParam() + "." + std::to_string(frames) + ".";
    auto mean = golden.model->encode(waves({1, 3, frames, height, width}, 0.37)).mean_BCHW * golden.deviation + golden.mean;
    EXPECT_LE(relative_error(test::digest(mean), expected.tensor(name + "mean")), 1e-6) << name;
    auto latents = 1.5 * waves({1, golden.config.latent_channels, (frames + 3) / 4, 3, 5}, 0.61);
    auto decoded = golden.model->decode((latents - golden.mean) / golden.deviation);
    EXPECT_EQ(decoded.size(2), frames);
    EXPECT_LE(relative_error(test::digest(decoded), expected.tensor(name + "decoded")), 1e-6) << name;
  }
}

TEST_P(CausalClips, AreHandedOutFrameByFrame) {
  at::NoGradGuard no_grad;
  Golden golden(GetParam());
  std::vector<std::pair<int64_t, int64_t>> taken;
  std::vector<at::Tensor> frames;
  golden.model->decode(golden.latents(), [&](int64_t first, const at::Tensor& some) {
    taken.emplace_back(first, some.size(2));
    frames.push_back(some);
  });
  EXPECT_EQ(taken, (std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 4}, {5, 4}}));
  EXPECT_TRUE(at::equal(at::cat(frames, 2), golden.model->decode(golden.latents())));
}

TEST_P(CausalClips, OfBytesAreThoseOfTheirNumbers) {
  at::NoGradGuard no_grad;
  Golden golden(GetParam());
  auto bytes = ((golden.clip() + 1) * 127.5).round().to(at::kByte);
  auto found = golden.model->encode(bytes), expected = golden.model->encode(bytes.to(at::kFloat) / 127.5 - 1);
  EXPECT_TRUE(at::equal(found.mean_BCHW, expected.mean_BCHW));
}

TEST_P(CausalClips, CarryGradientsThroughAllChunks) {
  Golden golden(GetParam());
  auto clip = golden.clip().set_requires_grad(true);
  golden.model->encode(clip).mean_BCHW.select(2, 2).square().sum().backward();
  EXPECT_GT(clip.grad().abs().amax({0, 1, 3, 4}).min().item<float>(), 0);
}

/// Blended tile by tile, as whole clips of tiles would be where no number is clamped.
TEST_P(CausalClips, InTilesAreTheirTilesTogether) {
  at::NoGradGuard no_grad;
  constexpr int64_t kTile = 64;
  Golden whole(GetParam()), tiled(GetParam(), CausalFor::clips, at::kFloat, kTile);
  for (const auto* each : {&whole, &tiled}) {
    for (const char* part : {"weight", "bias"}) each->model->parameters().at(std::string("decoder.conv_out.") + part)->mul_(0.1);
  }
  auto ratio = whole.config.downsampling();
  auto clip = on_device(at::rand({1, 3, 5, 64, 80}) * 2 - 1), latents = on_device(at::randn({1, 4, 2, 64 / ratio, 80 / ratio}));
  auto encode = [&](const at::Tensor& tile) { return whole.model->encode(tile).mean_BCHW; };
  auto decode = [&](const at::Tensor& tile) { return whole.model->decode(tile); };
  EXPECT_LT(decode(latents).abs().max().item<float>(), 1);
  EXPECT_LE(relative_error(tiled.model->encode(clip).mean_BCHW, vae::in_tiles(clip, kTile, kTile / ratio, encode)), 1e-5);
  EXPECT_LE(relative_error(tiled.model->decode(latents), vae::in_tiles(latents, kTile / ratio, kTile, decode)), 1e-5);
}

/// What the autoencoder for clips makes of one is what its last slices make.
TEST(CausalPictures, AreClipsOfOneFrame) {
  at::NoGradGuard no_grad;
  Golden clips("causal_video", CausalFor::clips, at::kDouble), pictures("causal_video", CausalFor::pictures, at::kDouble);
  EXPECT_TRUE(clips.config.in_time);
  EXPECT_EQ(clips.config.frames_per_latent(), 4);
  EXPECT_FALSE(pictures.config.in_time);
  EXPECT_EQ(pictures.config.frames_per_latent(), 1);
  EXPECT_LT(3 * pictures.model->num_bytes(), 2 * clips.model->num_bytes());
  auto picture = clips.clip(at::kDouble).select(2, 0).contiguous(), latents = clips.latents(at::kDouble).select(2, 0).contiguous();
  auto moments = pictures.model->encode(picture), of_clip = clips.model->encode(picture.unsqueeze(2));
  EXPECT_LE(relative_error(moments.mean_BCHW.unsqueeze(2), of_clip.mean_BCHW), 1e-12);
  EXPECT_LE(relative_error(moments.logvar_BCHW.unsqueeze(2), of_clip.logvar_BCHW), 1e-12);
  EXPECT_LE(relative_error(pictures.model->decode(latents).unsqueeze(2), clips.model->decode(latents.unsqueeze(2))), 1e-12);
  EXPECT_TRUE(at::equal(clips.model->decode(latents).unsqueeze(2), clips.model->decode(latents.unsqueeze(2))));
  EXPECT_THROW(pictures.model->encode(clips.clip()), std::logic_error);
  EXPECT_THROW(clips.model->encode(clips.clip().narrow(2, 0, 4)), std::logic_error);
}

TEST(CausalKeys, OriginalNamesKeepTheLayersInTime) {
  Golden golden("causal_video");
  io::NamedTensors ours;
  for (auto& [path, slot] : golden.model->parameters()) ours.emplace_back(path, *slot);
  test::Scratch scratch;
  auto path = (scratch / "original.safetensors").string();
  io::save_safetensors(path, vae::original_causal_keys(golden.config).to_file(ours));
  auto original = io::TensorSource::open({path});
  for (const char* name : {"conv1.weight", "encoder.downsamples.3.time_conv.weight", "encoder.downsamples.5.resample.1.weight",
                           "decoder.upsamples.2.time_conv.bias", "decoder.upsamples.5.resample.1.weight"})
    EXPECT_TRUE(original.contains(name)) << name;
  EXPECT_EQ(original.shapes().at("decoder.conv1.weight"), (std::vector<int64_t>{8, 4, 3, 3, 3}));
  auto keys = vae::causal_keys(original, CausalFor::clips);
  auto config = vae::causal_config(nlohmann::json::parse(golden.file.metadata().at("config")), io::shapes_in_our_names(original, keys));
  EXPECT_EQ(config.halves_frames, golden.config.halves_frames);
  vae::CausalAutoencoder again(config, at::TensorOptions());
  test::load_weights(again, original, keys);
  auto slots = again.parameters();
  for (const auto& [name, tensor] : ours) EXPECT_TRUE(at::equal(*slots.at(name), tensor)) << name;
}

/// Names and their meaning from tests/golden/make_wan_files.py.
TEST(CausalKeys, OriginalNamesOfLevelsByName) {
  const auto file = test::golden("causal_video_residual.safetensors").below("w.");
  const auto names = io::read_json(test::golden_path("wan_residual_vae.json"));
  io::Shapes shapes;
  for (const auto& [theirs, ours] : names.items()) shapes[theirs] = file.info(ours.get<std::string>()).shape;
  const auto source = io::TensorSource::of_shapes("original", shapes, at::kFloat);
  const auto keys = vae::causal_keys(source, CausalFor::clips);
  for (const auto& [theirs, ours] : names.items()) EXPECT_EQ(keys.to_ours(theirs).ours, std::vector{ours.get<std::string>()}) << theirs;
  EXPECT_EQ(names.size(), file.names().size());
  EXPECT_EQ(io::shapes_in_our_names(source, keys), file.shapes());
}

TEST(CausalConfig, LatentsOfWan22AreBuiltIn) {
  vae::CausalConfig config{
      .latent_channels = 48, .in_time = true, .halves_frames = {false, true, true}, .shortcuts = true, .pixels = {.patch = 2}};
  config.block_out_channels = config.decoder_channels = {16, 16, 32, 32};
  config.first_channels = 16;
  vae::CausalAutoencoder model(config, at::TensorOptions().device(at::kMeta));
  io::Shapes shapes;
  model.visit_parameters([&](const std::string& name, at::Tensor& p) { shapes[name] = p.sizes().vec(); });
  const auto found = vae::causal_config(nullptr, shapes);
  ASSERT_EQ(found.latents_mean.size(), 48u);
  EXPECT_EQ(found.latents_mean[0], -0.2289);
  EXPECT_EQ(found.latents_mean[47], -0.0667);
  EXPECT_EQ(found.latents_std[47], 0.7744);
}

TEST(CausalMemory, DoesNotGrowWithTheClip) {
  if (!test::device().is_cpu()) GTEST_SKIP() << "what is counted is main memory";
  at::NoGradGuard no_grad;
  Golden golden("causal_video");
  auto peaks = [&](int64_t num_latents) {
    auto clip = at::zeros({1, 3, 4 * num_latents - 3, 48, 64}, at::kByte);
    auto latents = at::zeros({1, 4, num_latents, 6, 8});
    auto peak = [](const auto& run) {
      test::Allocations counter;
      run();
      return counter.peak();
    };
    return std::pair(peak([&] { golden.model->encode(clip); }),
                     peak([&] { golden.model->decode(latents, [](int64_t, const at::Tensor&) {}); }));
  };
  auto [encoded, decoded] = peaks(4);
  auto [encoded_longer, decoded_longer] = peaks(16);
  EXPECT_LE(static_cast<double>(encoded_longer), 1.02 * static_cast<double>(encoded));
  EXPECT_LE(static_cast<double>(decoded_longer), 1.02 * static_cast<double>(decoded));
}

TEST(CausalConfig, IsComparedWithTheTensors) {
  for (const char* name : {"causal_video", "causal_video_residual"}) {
    SCOPED_TRACE(name);
    auto file = test::golden(std::string(name) + ".safetensors");
    auto good = nlohmann::json::parse(file.metadata().at("config"));
    auto weights = vae::causal_tensors(file.below("w."), CausalFor::clips);
    auto shapes = io::shapes_in_our_names(weights, vae::causal_keys(weights, CausalFor::clips));
    auto read = [&](const nlohmann::json& config) { vae::causal_config(config, shapes); };
    test::expect_compared(good, {"base_dim", "z_dim", "num_res_blocks", "in_channels", "out_channels"}, read);
    test::expect_refused(good, "dim_mult", {{1, 2, 4, 4}, {1, 1, 2}}, read);
    test::expect_refused(good, "temperal_downsample", {{true, true, true}}, read);
    test::expect_refused(good, "is_residual", {!good.at("is_residual").get<bool>()}, read);
  }
}
