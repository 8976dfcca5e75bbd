// Parity of LTX-2's autoencoder of frames with diffusers' on small random models (tests/golden/make_ltx2_autoencoders.py), and what its
// files may look like.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "memory/meta_ops.h"
#include "models/families/ltx2/autoencoder.h"
#include "models/families/ltx2/autoencoder_keys.h"
#include "models/families/ltx2/file_settings.h"
#include "tests/golden.h"
#include "tests/models/load.h"
#include "tests/scratch.h"

namespace burnish::ltx2_autoencoder_test {
using namespace burnish::models;
using ltx2::Autoencoder;
using ltx2::AutoencoderConfig;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

io::TensorSource file_of(const std::string& version) { return test::golden("ltx2_autoencoders/frames_" + version + ".safetensors"); }

AutoencoderConfig config_of(const io::TensorSource& file) {
  return ltx2::autoencoder_config(nlohmann::json::parse(file.metadata().at("config")), file.below("w.").shapes());
}

std::unique_ptr<Autoencoder> load(const AutoencoderConfig& config, const io::TensorSource& weights, const io::KeyMap& keys = {}) {
  auto model = std::make_unique<Autoencoder>(config, at::TensorOptions().device(at::kMeta));
  test::load(*model, weights, keys);
  return model;
}

std::unique_ptr<Autoencoder> load(const std::string& version, int64_t tile_size = 0) {
  const auto file = file_of(version);
  auto config = config_of(file);
  config.tile_size = tile_size;
  return load(config, file.below("w."));
}

/// The whole numbers of the golden script's `counted`.
at::Tensor counted(at::IntArrayRef sizes) {
  const auto count = at::arange(c10::multiply_integers(sizes), at::kLong);
  const auto tens = at::floor_divide(count, 11), hundreds = at::floor_divide(count, 97);
  return (count * 37 + tens * 5 + hundreds).remainder(256).view(sizes);
}
at::Tensor pixels(at::IntArrayRef sizes) { return on_device(counted(sizes).to(at::kByte)); }
at::Tensor latents(at::IntArrayRef sizes) { return on_device(counted(sizes).to(at::kFloat) / 64 - 2); }

const std::vector<int64_t> kPicture{1, 3, 1, 96, 128}, kClip{1, 3, 41, 32, 48}, kPictureLatents{1, 4, 1, 6, 8}, kClipLatents{1, 4, 6, 2, 3};

/// Tensors of a golden file as an original file has them, below a prefix.
io::NamedTensors original_tensors(const io::TensorSource& file, const std::string& prefix = "vae.") {
  const auto config = config_of(file);
  io::NamedTensors ours, theirs;
  const auto weights = file.below("w.");
  for (const auto& name : weights.names()) ours.emplace_back(name, weights.tensor(name));
  for (auto& [name, tensor] : ltx2::original_autoencoder_keys(config.encoder.levels.size(), config.decoder.levels.size()).to_file(ours))
    theirs.emplace_back(prefix + name, tensor);
  return theirs;
}

ModelEntry entry_of(const std::filesystem::path& path) {
  ModelEntry entry;
  entry.label = path.filename().string();
  entry.tensors = io::TensorSource::open({path});
  return entry;
}

ModelFiles files_of(const std::vector<std::filesystem::path>& paths) {
  ModelFiles files;
  for (const auto& path : paths) files.entries.push_back(entry_of(path));
  return files;
}

at::Tensor latents_of(const Autoencoder& model, const at::Tensor& frames) { return model.encode(frames).mean_BCHW; }

}  // namespace

TEST(Ltx2Autoencoder, EncodesAndDecodesAsDiffusersDoes) {
  at::NoGradGuard no_grad;
  for (const std::string version : {"20", "23"}) {
    const auto expected = file_of(version);
    for (const auto& [tiling, size] : std::map<std::string, int64_t>{{"whole", 0}, {"tiled", 64}}) {
      const auto model = load(version, size);
      for (const auto& [kind, frames, of_latents] :
           {std::tuple("picture", kPicture, kPictureLatents), std::tuple("clip", kClip, kClipLatents)}) {
        const auto name = std::string(kind) + "." + tiling + ".";
        const auto moments = model->encode(pixels(frames));
        const auto deviation = on_device(expected.tensor("w.latents_std")).to(at::kFloat).view({-1, 1, 1, 1});
        EXPECT_LE(relative_error(moments.mean_BCHW, expected.tensor(name + "mean")), tolerance(1e-5)) << version << " " << name;
        const auto logvar = moments.logvar_BCHW + 2 * deviation.log();
        EXPECT_LE(relative_error(logvar, expected.tensor(name + "logvar").expand_as(logvar)), tolerance(1e-5)) << version << " " << name;
        const auto decoded = model->decode(latents(of_latents));
        EXPECT_LE(relative_error(test::digest(decoded), expected.tensor(name + "decoded")), tolerance(1e-5)) << version << " " << name;
      }
    }
  }
}

TEST(Ltx2Autoencoder, AStillHasTheLatentOfAClipThatBeginsWithIt) {
  at::NoGradGuard no_grad;
  const auto model = load("23");
  const auto clip = pixels(kClip);
  const auto still = latents_of(*model, clip.select(2, 0));
  EXPECT_EQ(still.dim(), 4);
  EXPECT_LE(relative_error(still, latents_of(*model, clip).select(2, 0)), tolerance(1e-6));
}

TEST(Ltx2Autoencoder, FramesSeeThoseBeforeThemWhenEncodedAndAllWhenDecoded) {
  at::NoGradGuard no_grad;
  const auto model = load("20");
  const auto clip = pixels(kClip), other = at::cat({clip.narrow(2, 0, 33), 255 - clip.narrow(2, 33, 8)}, 2);
  EXPECT_TRUE(at::equal(latents_of(*model, clip).narrow(2, 0, 5), latents_of(*model, other).narrow(2, 0, 5)));
  const auto given = latents(kClipLatents), changed = at::cat({given.narrow(2, 0, 5), -given.narrow(2, 5, 1)}, 2);
  const auto frames = model->decode(given), frames_of_changed = model->decode(changed);
  EXPECT_EQ(frames.size(2), 41);
  EXPECT_GT((frames - frames_of_changed).select(2, 0).abs().max().item<double>(), 0);
}

// A plan of a run computes the shapes alone.
TEST(Ltx2Autoencoder, ShapesAreKnownWithoutNumbers) {
  memory::register_meta_ops();
  at::NoGradGuard no_grad;
  const auto meta = at::TensorOptions().device(at::kMeta).dtype(at::kFloat);
  for (const auto& config : {AutoencoderConfig{}, ltx2::autoencoder_config_20()}) {
    const Autoencoder model(config, meta);
    const auto latents = model.encode(at::empty({1, 3, 121, 512, 768}, meta.dtype(at::kByte))).mean_BCHW;
    EXPECT_EQ(latents.sizes(), (at::IntArrayRef{1, 128, 16, 16, 24}));
    EXPECT_EQ(model.decode(latents).sizes(), (at::IntArrayRef{1, 3, 121, 512, 768}));
  }
}

TEST(Ltx2Autoencoder, PixelsMayBeBytesOrNumbers) {
  at::NoGradGuard no_grad;
  const auto model = load("23");
  const auto bytes = pixels(kPicture);
  EXPECT_LE(relative_error(latents_of(*model, bytes), latents_of(*model, bytes.to(at::kFloat) / 127.5 - 1)), tolerance(1e-6));
}

TEST(Ltx2Autoencoder, SingleFilesHaveOriginalNamesAndTheirSettings) {
  at::NoGradGuard no_grad;
  for (const std::string version : {"20", "23"}) {
    test::Scratch scratch;
    auto tensors = original_tensors(file_of(version));
    tensors.emplace_back("vae.per_channel_statistics.mean-of-stds", at::ones({4}));
    tensors.emplace_back("audio_vae.encoder.conv_in.conv.weight", at::ones({4}));
    const auto residual = version == "20" ? "true" : "false", edges = version == "20" ? "reflect" : "zeros";
    const auto block = fmt::format(R"(["res_x", {{"num_layers": 1}}], ["compress_all", {{"residual": {}, "multiplier": 2}}])", residual);
    auto blocks = block;
    for (int i = 1; i < (version == "20" ? 3 : 4); ++i) blocks += ", " + block;
    const auto settings = fmt::format(R"({{"vae": {{"decoder_blocks": [{}], "decoder_spatial_padding_mode": "{}"}}}})", blocks, edges);
    io::save_safetensors(scratch / "whole.safetensors", tensors, io::Metadata{{"config", settings}});
    const auto files = files_of({scratch / "whole.safetensors"});
    const auto source = ltx2::find_autoencoder(files);
    ASSERT_TRUE(source.tensors && source.is_original);
    const auto model = load(ltx2::read_settings(source, "vae", ltx2::autoencoder_config), *source.tensors, source.keys);
    const auto whole = load(version);
    EXPECT_TRUE(at::equal(latents_of(*model, pixels(kClip)), latents_of(*whole, pixels(kClip))));
    EXPECT_TRUE(at::equal(model->decode(latents(kClipLatents)), whole->decode(latents(kClipLatents))));
  }
}

TEST(Ltx2Autoencoder, SettingsAreBelievedBeforeWhatIsUsual) {
  at::NoGradGuard no_grad;
  const auto shapes = file_of("23").below("w.").shapes();
  const auto usual = ltx2::autoencoder_config({}, shapes);
  EXPECT_EQ(usual.decoder.edges, ltx2::Edges::zeros);
  EXPECT_FALSE(usual.decoder.levels[0].adds_input);
  const auto old = ltx2::autoencoder_config({}, file_of("20").below("w.").shapes());
  EXPECT_EQ(old.decoder.edges, ltx2::Edges::mirrored);
  EXPECT_TRUE(old.decoder.levels[0].adds_input);
  const auto told = ltx2::autoencoder_config({{"decoder_spatial_padding_mode", "reflect"}, {"causal_decoder", true}}, shapes);
  EXPECT_EQ(told.decoder.edges, ltx2::Edges::mirrored);
  EXPECT_TRUE(told.decoder.is_causal);
  EXPECT_EQ(told.encoder.edges, ltx2::Edges::zeros);
}

TEST(Ltx2Autoencoder, HalvesMayLieInTwoFilesOrBeAlone) {
  at::NoGradGuard no_grad;
  test::Scratch scratch;
  const auto file = file_of("23");
  for (const std::string half : {"encoder", "decoder"}) {
    io::NamedTensors tensors;
    for (const auto& [name, tensor] : original_tensors(file)) {
      if (name.starts_with("vae." + half) || name.starts_with("vae.per_channel")) tensors.emplace_back(name, tensor);
    }
    io::save_safetensors(scratch / (half + ".safetensors"), tensors);
  }
  auto open = [](const ModelFiles& files) {
    const auto source = ltx2::find_autoencoder(files);
    return load(ltx2::read_settings(source, "vae", ltx2::autoencoder_config), *source.tensors, source.keys);
  };
  const auto whole = load("23");
  const auto both = files_of({scratch / "encoder.safetensors", scratch / "decoder.safetensors"});
  const auto joined = open(both);
  EXPECT_TRUE(at::equal(latents_of(*joined, pixels(kPicture)), latents_of(*whole, pixels(kPicture))));
  EXPECT_TRUE(at::equal(joined->decode(latents(kClipLatents)), whole->decode(latents(kClipLatents))));
  const auto only = files_of({scratch / "encoder.safetensors"}), rest = files_of({scratch / "decoder.safetensors"});
  const auto encoder = open(only), decoder = open(rest);
  EXPECT_TRUE(at::equal(latents_of(*encoder, pixels(kPicture)), latents_of(*whole, pixels(kPicture))));
  EXPECT_TRUE(at::equal(decoder->decode(latents(kClipLatents)), whole->decode(latents(kClipLatents))));
  EXPECT_NE(test::error_of([&] { encoder->decode(latents(kClipLatents)); }).find("ltx-2.5-video-vae-conv-bf16"), std::string::npos);
  EXPECT_NE(test::error_of([&] { decoder->encode(pixels(kPicture)); }).find("encoder too"), std::string::npos);
}

TEST(Ltx2Autoencoder, ADecoderByDiffusionIsPassedOver) {
  test::Scratch scratch;
  io::NamedTensors tensors{{"decoder.diff_blocks.0.scale_shift_table", at::ones({2, 4})}, {"decoder.conv_in.weight", at::ones({4, 4})}};
  for (const auto& [name, tensor] : original_tensors(file_of("23"), "")) {
    if (!name.starts_with("decoder.")) tensors.emplace_back(name, tensor);
  }
  io::save_safetensors(scratch / "diffusion.safetensors", tensors);
  io::save_safetensors(scratch / "conv.safetensors", original_tensors(file_of("23"), ""));
  const auto files = files_of({scratch / "diffusion.safetensors"});
  const auto config = ltx2::read_settings(ltx2::find_autoencoder(files), "vae", ltx2::autoencoder_config);
  EXPECT_TRUE(config.encoder.is_there && !config.decoder.is_there);
  const auto both = files_of({scratch / "diffusion.safetensors", scratch / "conv.safetensors"});
  EXPECT_TRUE(ltx2::read_settings(ltx2::find_autoencoder(both), "vae", ltx2::autoencoder_config).decoder.is_there);
}

TEST(Ltx2Autoencoder, PublishedSizesHaveThePublishedParameterCounts) {
  auto millions = [](const AutoencoderConfig& config) {
    Autoencoder model(config, at::TensorOptions().device(at::kMeta).dtype(at::kFloat));
    EXPECT_EQ(config.downsampling(), 32);
    EXPECT_EQ(config.frames_per_latent(), 8);
    return static_cast<double>(model.num_bytes()) / 4e6;
  };
  EXPECT_NEAR(millions(ltx2::autoencoder_config_20()), 1222, 1);
  EXPECT_NEAR(millions(AutoencoderConfig{}), 726, 1);
}

TEST(Ltx2Autoencoder, WhatDoesNotFitIsAnError) {
  at::NoGradGuard no_grad;
  const auto model = load("23");
  EXPECT_NE(test::error_of([&] { model->encode(pixels({1, 3, 10, 32, 32})); }).find("8k + 1 frames"), std::string::npos);
  EXPECT_NE(test::error_of([&] { model->encode(pixels({1, 3, 9, 32, 40})); }).find("multiples of 16"), std::string::npos);
  const auto shapes = file_of("23").below("w.").shapes();
  for (const auto& [key, value] : std::vector<std::pair<std::string, nlohmann::json>>{{"decoder_spatial_padding_mode", "circular"},
                                                                                      {"timestep_conditioning", true},
                                                                                      {"norm_layer", "group_norm"},
                                                                                      {"patch_size_t", 2},
                                                                                      {"upsample_residual", {true, false}},
                                                                                      {"upsample_residual", true},
                                                                                      {"decoder_blocks", nlohmann::json::array()}})
    EXPECT_NE(test::error_of([&] { ltx2::autoencoder_config({{key, value}}, shapes); }), "") << key << " " << value;
  auto damaged = shapes;
  damaged["encoder.down_blocks.1.downsamplers.0.conv.conv.weight"][0] = 3;
  EXPECT_NE(test::error_of([&] { ltx2::autoencoder_config({}, damaged); }).find("steps between"), std::string::npos);
  damaged = shapes;
  damaged.erase("encoder.conv_out.conv.weight");
  EXPECT_NE(test::error_of([&] { ltx2::autoencoder_config({}, damaged); }).find("encoder.conv_out"), std::string::npos);
}

TEST(Ltx2Autoencoder, SettingsThatAreNoJsonNameTheirFile) {
  test::Scratch scratch;
  io::save_safetensors(scratch / "cut.safetensors", original_tensors(file_of("23")), io::Metadata{{"config", "{\"vae\": {"}});
  const auto files = files_of({scratch / "cut.safetensors"});
  const auto error = test::error_of([&] { ltx2::read_settings(ltx2::find_autoencoder(files), "vae", ltx2::autoencoder_config); });
  EXPECT_NE(error.find("cut.safetensors"), std::string::npos) << error;
}

}  // namespace burnish::ltx2_autoencoder_test
