// Parity of LTX-2's autoencoder of sound and its vocoders with diffusers' on small random models (tests/golden/make_ltx2_autoencoders.py),
// and what their files may look like.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <nlohmann/json.hpp>

#include "memory/meta_ops.h"
#include "models/families/ltx2/bands.h"
#include "models/families/ltx2/file_settings.h"
#include "models/families/ltx2/halves.h"
#include "models/families/ltx2/sound_autoencoder.h"
#include "models/families/ltx2/vocoder.h"
#include "models/families/ltx2/vocoder_layers.h"
#include "tests/golden.h"
#include "tests/models/load.h"
#include "tests/scratch.h"

namespace burnish::ltx2_sound_test {
using namespace burnish::models;
using ltx2::SoundAutoencoder;
using ltx2::SoundConfig;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

io::TensorSource file_of(const std::string& name) { return test::golden("ltx2_autoencoders/" + name + ".safetensors"); }
nlohmann::json settings_in(const io::TensorSource& file) { return nlohmann::json::parse(file.metadata().at("config")); }

std::unique_ptr<SoundAutoencoder> load(const SoundConfig& config, const io::TensorSource& weights, const io::KeyMap& keys = {}) {
  auto model = std::make_unique<SoundAutoencoder>(config, at::TensorOptions().device(at::kMeta));
  test::load(*model, weights, keys);
  return model;
}

std::unique_ptr<SoundAutoencoder> load_sound() {
  const auto file = file_of("sound"), weights = file.below("w.");
  return load(ltx2::sound_config(settings_in(file), weights.shapes()), weights);
}

/// The sound of the golden script's `tone`, fp64 [1, 2, N].
at::Tensor tone(int64_t count) {
  const auto time = at::arange(count, at::kDouble) / 16000;
  return at::stack({at::sin(1500 * time * (1 + 8 * time)) * 0.5, at::sin(900 * time) * 0.3 + at::sin(20000 * time) * 0.2}).unsqueeze(0);
}

/// The whole numbers of the golden script's `counted`, as latents.
at::Tensor latents(at::IntArrayRef sizes) {
  const auto count = at::arange(c10::multiply_integers(sizes), at::kLong);
  const auto numbers = (count * 37 + at::floor_divide(count, 11) * 5 + at::floor_divide(count, 97)).remainder(256);
  return on_device(numbers.view(sizes).to(at::kFloat) / 64 - 2);
}

/// The tensors of the golden autoencoder of sound as an original file has them.
io::NamedTensors original_tensors(const std::string& half = "") {
  const std::map<std::string, std::string> statistics{{"latents_mean", ltx2::kOriginalMean}, {"latents_std", ltx2::kOriginalDeviation}};
  io::NamedTensors theirs;
  const auto weights = file_of("sound").below("w.");
  for (const auto& name : weights.names()) {
    const auto statistic = statistics.find(name);
    const bool is_statistic = statistic != statistics.end();
    if (is_statistic || name.starts_with(half))
      theirs.emplace_back("audio_vae." + (is_statistic ? statistic->second : name), weights.tensor(name));
  }
  return theirs;
}

/// The tensors of a golden vocoder as find_vocoder shows them.
io::TensorSource vocoder_weights(const std::string& version) {
  const auto weights = file_of("vocoder_" + version).below("w.");
  return weights.renamed([&](const std::string& name) {
    if (version == "20") return "vocoder." + name;
    return name.ends_with("inverse_basis") ? std::string() : name;
  });
}

std::unique_ptr<ltx2::Vocoder> load_vocoder(const ltx2::VocoderConfig& config, const io::TensorSource& weights,
                                            const io::KeyMap& keys = {}) {
  auto model = std::make_unique<ltx2::Vocoder>(config, at::TensorOptions().device(at::kMeta));
  test::load(*model, weights, keys);
  return model;
}

ModelFiles files_of(const std::vector<std::filesystem::path>& paths) {
  ModelFiles files;
  for (const auto& path : paths) {
    auto& entry = files.entries.emplace_back();
    entry.label = path.filename().string();
    entry.tensors = io::TensorSource::open({path});
  }
  return files;
}

}  // namespace

TEST(Ltx2Sound, BandsAreThoseOfTransformersWeights) {
  const auto file = file_of("sound");
  const auto samples = on_device(tone(4800).to(at::kFloat));
  EXPECT_LE(relative_error(ltx2::log_bands(samples, {.num_bands = 16}), file.tensor("bands")), tolerance(1e-5));
  const auto bands = ltx2::log_bands(samples, {});
  EXPECT_EQ(bands.sizes(), (at::IntArrayRef{1, 2, 31, 64}));
  EXPECT_LE(relative_error(test::digest(bands), file.tensor("bands_of_64")), tolerance(1e-5));
}

// A plan of a run computes the shapes alone.
TEST(Ltx2Sound, ShapesAreKnownWithoutNumbers) {
  memory::register_meta_ops();
  at::NoGradGuard no_grad;
  const auto meta = at::TensorOptions().device(at::kMeta).dtype(at::kFloat);
  const SoundAutoencoder model(SoundConfig{}, meta);
  const auto latents = model.encode(at::empty({1, 2, 80667}, meta));
  EXPECT_EQ(latents.sizes(), (at::IntArrayRef{1, 128, 127}));
  EXPECT_EQ(model.decode(latents).sizes(), (at::IntArrayRef{1, 2, 505, 64}));
}

TEST(Ltx2Sound, IsEncodedAndDecodedAsByDiffusers) {
  at::NoGradGuard no_grad;
  const auto file = file_of("sound");
  const auto model = load_sound();
  EXPECT_LE(relative_error(model->encode(on_device(tone(4800))), file.tensor("latents")), tolerance(1e-5));
  const auto decoded = model->decode(latents({1, 8, 5}));
  EXPECT_EQ(decoded.sizes(), (at::IntArrayRef{1, 2, 17, 16}));
  EXPECT_LE(relative_error(test::digest(decoded), file.tensor("decoded")), tolerance(1e-5));
}

TEST(Ltx2Sound, LatentsSeeWhatWasHeardBefore) {
  at::NoGradGuard no_grad;
  const auto model = load_sound();
  const auto whole = model->encode(on_device(tone(8000))), begin = model->encode(on_device(tone(4800)));
  EXPECT_EQ(whole.size(2), 13);
  // The last windows of the shorter sound are mirrored at its end.
  EXPECT_LE(relative_error(whole.narrow(2, 0, 6), begin.narrow(2, 0, 6)), tolerance(1e-5));
}

TEST(Ltx2Sound, AShortSoundEndsInSilence) {
  at::NoGradGuard no_grad;
  const auto model = load_sound();
  const auto begin = tone(300), filled = at::cat({begin, at::zeros({1, 2, 213})}, 2);
  const auto latents = model->encode(on_device(begin));
  EXPECT_EQ(latents.size(2), 1);
  EXPECT_LE(relative_error(latents, model->encode(on_device(filled)).narrow(2, 0, 1)), tolerance(1e-5));
}

TEST(Ltx2Sound, SingleFilesHaveOriginalNames) {
  at::NoGradGuard no_grad;
  test::Scratch scratch;
  const std::string settings = R"({"audio_vae": {"model": {"params": {"sampling_rate": 16000, "ddconfig": {"mel_bins": 16, "causality_axis":
    "height", "norm_type": "pixel", "attn_resolutions": [], "mid_block_add_attention": false}}}, "preprocessing": {"stft": {"hop_length": 160,
    "filter_length": 1024}}}})";
  io::save_safetensors(scratch / "whole.safetensors", original_tensors(), io::Metadata{{"config", settings}});
  io::save_safetensors(scratch / "encoder.safetensors", original_tensors("encoder."));
  io::save_safetensors(scratch / "decoder.safetensors", original_tensors("decoder."));
  auto open = [&](const std::vector<std::string>& names) {
    std::vector<std::filesystem::path> paths;
    for (const auto& name : names) paths.push_back(scratch / (name + ".safetensors"));
    const auto files = files_of(paths);
    const auto source = ltx2::find_sound(files);
    return load(ltx2::read_settings(source, "audio_vae", ltx2::sound_config), *source.tensors, source.keys);
  };
  const auto model = load_sound();
  const auto heard = model->encode(on_device(tone(4800))), decoded = model->decode(latents({1, 8, 5}));
  for (const auto& names : std::vector<std::vector<std::string>>{{"whole"}, {"encoder", "decoder"}}) {
    EXPECT_TRUE(at::equal(open(names)->encode(on_device(tone(4800))), heard)) << names[0];
    EXPECT_TRUE(at::equal(open(names)->decode(latents({1, 8, 5})), decoded)) << names[0];
  }
  EXPECT_NE(test::error_of([&] { open({"encoder"})->decode(latents({1, 8, 5})); }).find("decoder too"), std::string::npos);
  EXPECT_NE(test::error_of([&] { open({"decoder"})->encode(tone(4800)); }).find("encoder too"), std::string::npos);
}

TEST(Ltx2Sound, PublishedSizesHaveThePublishedParameterCount) {
  SoundAutoencoder model(SoundConfig{}, at::TensorOptions().device(at::kMeta).dtype(at::kFloat));
  EXPECT_NEAR(static_cast<double>(model.num_bytes()) / 4e6, 53.2, 0.1);
  EXPECT_EQ(model.parameters().size(), 102u);
  EXPECT_EQ(SoundConfig{}.width(), 128);
}

TEST(Ltx2Sound, WhatDoesNotFitIsAnError) {
  const auto file = file_of("sound");
  const auto shapes = file.below("w.").shapes();
  for (const auto& [key, value] : std::vector<std::pair<std::string, nlohmann::json>>{{"causality_axis", "width"},
                                                                                      {"norm_type", "group"},
                                                                                      {"mel_bins", 64},
                                                                                      {"sample_rate", 0},
                                                                                      {"mel_hop_length", 2000},
                                                                                      {"mid_block_add_attention", true}}) {
    auto settings = settings_in(file);
    settings[key] = value;
    EXPECT_NE(test::error_of([&] { ltx2::sound_config(settings, shapes); }), "") << key;
  }
  auto damaged = shapes;
  damaged.erase("latents_mean");
  EXPECT_NE(test::error_of([&] { ltx2::sound_config({}, damaged); }).find("latents_mean"), std::string::npos);
}

TEST(Ltx2Vocoder, MakesTheSoundThatDiffusersMakes) {
  at::NoGradGuard no_grad;
  for (const std::string version : {"20", "23"}) {
    const auto file = file_of("vocoder_" + version), weights = vocoder_weights(version);
    const auto config = ltx2::vocoder_config(settings_in(file), weights.shapes());
    EXPECT_EQ(config.second.has_value(), version == "23");
    EXPECT_EQ(config.rate, version == "23" ? 1200 : 600);
    const auto sound = load_vocoder(config, weights)->forward(latents({1, 2, 9, 16}));
    EXPECT_EQ(sound.size(2), 9 * (version == "23" ? 12 : 6));
    EXPECT_LE(relative_error(sound, file.tensor("sound")), tolerance(1e-5)) << version;
  }
}

TEST(Ltx2Vocoder, IsFoundByOriginalNamesAndDiffusers) {
  at::NoGradGuard no_grad;
  for (const std::string version : {"20", "23"}) {
    test::Scratch scratch;
    const auto file = file_of("vocoder_" + version);
    const auto weights = file.below("w.");
    io::NamedTensors ours, theirs;
    for (const auto& name : weights.names()) {
      ours.emplace_back(name, weights.tensor(name));
      auto original = "vocoder." + name;
      for (const auto& [from, to] : std::map<std::string, std::string>{{"conv_in", "conv_pre"},
                                                                       {"conv_out", "conv_post"},
                                                                       {"upsamplers", "ups"},
                                                                       {"resnets", "resblocks"},
                                                                       {"act_out", "act_post"},
                                                                       {"downsample.filter", "downsample.lowpass.filter"}}) {
        const auto place = original.find(from);
        if (place != std::string::npos) original.replace(place, from.size(), to);
      }
      theirs.emplace_back(original, weights.tensor(name));
    }
    theirs.emplace_back("audio_vae.encoder.conv_in.conv.weight", at::zeros({2}));
    const auto sections = nlohmann::json{{"vocoder", settings_in(file)}}.dump();
    io::save_safetensors(scratch / "folder.safetensors", ours, io::Metadata{{"config", sections}});
    io::save_safetensors(scratch / "whole.safetensors", theirs, io::Metadata{{"config", sections}});
    for (const std::string name : {"folder", "whole"}) {
      const auto files = files_of({scratch / (name + ".safetensors")});
      const auto source = ltx2::find_vocoder(files);
      ASSERT_TRUE(source.tensors.has_value()) << name;
      EXPECT_EQ(source.is_original, name == "whole");
      const auto model = load_vocoder(ltx2::read_settings(source, "vocoder", ltx2::vocoder_config), *source.tensors, source.keys);
      EXPECT_LE(relative_error(model->forward(latents({1, 2, 9, 16})), file.tensor("sound")), tolerance(1e-5)) << version << " " << name;
    }
  }
}

TEST(Ltx2Vocoder, OriginalSettingsHaveASectionForEachNetwork) {
  const auto shapes = vocoder_weights("23").shapes();
  const nlohmann::json settings{
      {"vocoder", {{"upsample_rates", {2, 2}}, {"resblock_dilation_sizes", {{1, 3}, {1, 2}}}, {"use_tanh_at_final", false}}},
      {"bwe", {{"upsample_rates", {3, 2}}, {"hop_length", 2}, {"input_sampling_rate", 400}, {"output_sampling_rate", 1200}}}};
  const auto config = ltx2::vocoder_config(settings, shapes);
  EXPECT_EQ(config.first.steps, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(config.first.bound, ltx2::Bound::clamp);
  EXPECT_EQ(config.second->steps, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(config.second->dilations, (std::vector<std::vector<int64_t>>{{1, 3, 5}}));
  EXPECT_EQ(config.rate, 1200);
}

TEST(Ltx2Vocoder, PublishedSizesHaveThePublishedParameterCountsAndRates) {
  auto millions = [](const ltx2::VocoderConfig& config) {
    ltx2::Vocoder model(config, at::TensorOptions().device(at::kMeta).dtype(at::kFloat));
    return static_cast<double>(model.num_bytes()) / 4e6;
  };
  const ltx2::VocoderConfig of_23;
  const auto of_20 = ltx2::vocoder_config_20();
  EXPECT_NEAR(millions(of_20), 55.6, 0.1);
  EXPECT_NEAR(millions(of_23), 115 + 13.5, 1);
  // A hundred windows are a second.
  EXPECT_EQ(of_20.first.samples_per_window() * 100, of_20.rate);
  EXPECT_EQ(of_23.first.samples_per_window() * 100, of_23.first_rate);
  EXPECT_EQ(of_23.second->samples_per_window() * of_23.first_rate / of_23.hearing.step, of_23.rate);
}

TEST(Ltx2Vocoder, WhatDoesNotFitIsAnError) {
  const auto shapes = vocoder_weights("23").shapes();
  EXPECT_NE(test::error_of([&] { ltx2::vocoder_config({}, shapes); }).find("settings beside its weights"), std::string::npos);
  for (const auto& [key, value] : std::vector<std::pair<std::string, nlohmann::json>>{{"upsample_factors", {2}},
                                                                                      {"bwe_upsample_factors", {2, 2}},
                                                                                      {"output_sampling_rate", 1000},
                                                                                      {"final_act_fn", "relu"},
                                                                                      {"hop_length", 0}}) {
    auto settings = settings_in(file_of("vocoder_23"));
    settings[key] = value;
    EXPECT_NE(test::error_of([&] { ltx2::vocoder_config(settings, shapes); }), "") << key;
  }
}

}  // namespace burnish::ltx2_sound_test
