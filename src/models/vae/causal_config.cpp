#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/vae/causal_autoencoder.h"

namespace burnish::models::vae {

namespace {

constexpr const char* kCausalWhat = "autoencoder";
const std::string kCausalFirst = "encoder.conv_in.weight";

std::string down_block(int64_t number) { return "encoder.down_blocks." + std::to_string(number); }

/// The original names of a residual block's layers, and ours; those of convolutions behind the norms.
constexpr std::pair<const char*, const char*> kNormsOfResnet[] = {{"residual.0", "norm1"}, {"residual.3", "norm2"}};
constexpr std::pair<const char*, const char*> kConvsOfResnet[] = {
    {"residual.2", "conv1"}, {"residual.6", "conv2"}, {"shortcut", "conv_shortcut"}};

using Op = io::KeyRule::Op;

/// Rules as they come together. For clips, and of flat autoencoders, kernels are those of the file.
struct CausalRules {
  bool in_time = false, is_flat = false;
  std::vector<io::KeyRule> rules = {};

  void norm(const std::string& theirs, const std::string& ours) { rules.push_back({theirs + ".gamma", {ours + ".gamma"}}); }
  void conv(const std::string& theirs, const std::string& ours) { add(theirs, ours, in_time || is_flat ? Op::copy : Op::last_frame); }
  /// One that sees a single frame, or frames alone.
  void plain_conv(const std::string& theirs, const std::string& ours) { add(theirs, ours, Op::copy); }
  void resnet(const std::string& theirs, const std::string& ours) {
    for (const auto& [old, now] : kNormsOfResnet) norm(theirs + "." + old, ours + "." + now);
    for (const auto& [old, now] : kConvsOfResnet) conv(theirs + "." + old, ours + "." + now);
  }
  void step(const std::string& theirs, const std::string& ours) {
    plain_conv(theirs + ".resample.1", ours + ".resample.1");
    if (in_time) plain_conv(theirs + ".time_conv", ours + ".time_conv");
  }

 private:
  void add(const std::string& theirs, const std::string& ours, Op op) {
    rules.push_back({theirs + ".weight", {ours + ".weight"}, op});
    rules.push_back({theirs + ".bias", {ours + ".bias"}});
  }
};

/// Mean and deviation of the latents of Wan 2.2's autoencoder, whose original files hold neither (Wan-Video/Wan2.2: wan/modules/vae2_2.py).
const std::vector<double> kMeanOf48 = {-0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174,  0.1838,  0.1557,  -0.1382, 0.0542,
                                       0.2813,  0.0891,  0.157,   -0.0098, 0.0375,  -0.1825, -0.2246, -0.1207, -0.0698, 0.5109,
                                       0.2665,  -0.2108, -0.2158, 0.2502,  -0.2055, -0.0322, 0.1109,  0.1567,  -0.0729, 0.0899,
                                       -0.2799, -0.123,  -0.0313, -0.1649, 0.0117,  0.0723,  -0.2839, -0.2083, -0.052,  0.3748,
                                       0.0152,  0.1957,  0.1433,  -0.2944, 0.3573,  -0.0548, -0.1681, -0.0667};
const std::vector<double> kDeviationOf48 = {0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.499,  0.4818, 0.5013, 0.8158, 1.0344, 0.5894, 1.0901,
                                            0.6885, 0.6165, 0.8454, 0.4978, 0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659,
                                            0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093, 0.5709, 0.6065, 0.6415, 0.4944,
                                            0.5726, 1.2042, 0.5458, 1.6887, 0.3971, 1.06,   0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744};

/// Means and deviations of the latents of Qwen-Image-2.1's autoencoder (diffusers: autoencoder_kl_qwenimage21.py).
const std::vector<double> kMeanOf64 = {0.5126,  0.7721,  -0.0631, 1.3506,  -0.7855, -2.1025, -0.3458, 1.3722,  1.8873,  -1.7177, -0.651,
                                       0.2732,  0.7562,  -0.6163, -1.0277, 3.8363,  2.021,   0.0472,  0.932,   2.0087,  2.4954,  -0.1391,
                                       -1.4249, 1.8464,  -0.5236, 1.2826,  3.7046,  -1.3035, 2.7286,  -1.4518, -1.9036, -1.9955, -0.0342,
                                       -1.0265, -0.7636, 3.0555,  0.0746,  -3.0751, -0.1076, 1.7376,  -1.0914, -1.9435, -0.2784, -1.368,
                                       0.4809,  -0.4433, 0.3764,  0.5729,  -2.0595, 1.096,   -1.326,  -2.0211, -5.0179, 0.5275,  4.0162,
                                       1.8505,  0.3026,  1.9373,  1.4937,  0.2632,  0.5547,  -1.7121, -0.1562, 0.0304};
const std::vector<double> kDeviationOf64 = {
    3.2001, 3.2936, 3.4321, 3.0091, 3.1061, 4.0379, 4.0705, 3.791,  3.0785, 3.65,   3.9308, 3.0904, 2.8778, 3.7675, 3.732,  5.0756,
    3.2864, 4.0397, 3.1317, 4.0443, 2.9249, 3.9454, 3.0988, 4.2489, 3.4896, 3.8513, 3.9323, 3.4719, 3.7498, 4.283,  3.5694, 4.2467,
    3.9037, 3.2947, 5.077,  3.5075, 3.27,   3.4767, 2.8063, 5.1125, 3.5327, 4.7833, 3.1286, 4.1819, 3.8527, 3.8312, 3.5605, 4.3875,
    3.9624, 4.0168, 3.5643, 4.055,  5.5614, 4.2963, 4.408,  3.4959, 3.8747, 3.7608, 3.5735, 3.149,  3.7662, 3.6746, 3.4563, 3.8161};

void check_latents(const CausalConfig& c) {
  auto count = static_cast<size_t>(c.latent_channels);
  bool above = std::ranges::all_of(c.latents_std, [](double deviation) { return deviation > 0; });
  if (c.latents_mean.size() != count || c.latents_std.size() != count || !above)
    data_error("models", "the autoencoder's config.json has {} numbers latents_mean and {} latents_std for {} channels, or one not above 0",
               c.latents_mean.size(), c.latents_std.size(), c.latent_channels);
}

}  // namespace

int64_t CausalConfig::frames_per_latent() const { return int64_t{1} << std::ranges::count(halves_frames, true); }

namespace {

/// The encoder's levels, whose blocks and steps are counted on in one row.
void read_levels(CausalConfig& c, const io::Shapes& shapes) {
  int64_t number = 0;
  for (bool more = true; more; ++number) {
    int64_t blocks = 0;
    for (; shapes.contains(down_block(number) + ".conv1.weight"); ++blocks) ++number;
    if (blocks > 0) c.block_out_channels.push_back(io::side_of(shapes, down_block(number - 1) + ".conv1.weight", 0, kCausalWhat));
    if (blocks > 0) c.layers_per_block = blocks;
    more = blocks > 0 && shapes.contains(down_block(number) + ".resample.1.weight");
    if (more) c.halves_frames.push_back(shapes.contains(down_block(number) + ".time_conv.weight"));
  }
}

/// Reads the levels of an autoencoder with shortcuts, each under a name of its own.
void read_named_levels(CausalConfig& c, const io::Shapes& shapes) {
  auto block = [](int64_t level, int64_t i) { return down_block(level) + ".resnets." + std::to_string(i) + ".conv1.weight"; };
  for (int64_t level = 0; shapes.contains(block(level, 0)); ++level) {
    c.block_out_channels.push_back(io::side_of(shapes, block(level, 0), 0, kCausalWhat));
    if (shapes.contains(down_block(level) + ".downsampler.resample.1.weight"))
      c.halves_frames.push_back(shapes.contains(down_block(level) + ".downsampler.time_conv.weight"));
  }
  for (c.layers_per_block = 0; shapes.contains(block(0, c.layers_per_block));) ++c.layers_per_block;
}

/// The decoder's, which are counted from the coarsest; as the encoder's where they are not there.
std::vector<int64_t> decoder_levels(const std::vector<int64_t>& encoder, const io::Shapes& shapes) {
  auto channels = encoder;
  for (size_t i = 0; i < channels.size(); ++i) {
    auto name = "decoder.up_blocks." + std::to_string(channels.size() - 1 - i) + ".resnets.0.conv1.weight";
    if (shapes.contains(name)) channels[i] = io::side_of(shapes, name, 0, kCausalWhat);
  }
  return channels;
}

/// The steps between so many levels that halve the frames of the published flat autoencoder, whose tensors do not tell them.
std::vector<bool> all_but_first(size_t num_levels) {
  std::vector<bool> halves(num_levels > 1 ? num_levels - 1 : 0, true);
  if (!halves.empty()) halves[0] = false;
  return halves;
}

CausalConfig causal_sizes(const io::Shapes& shapes) {
  CausalConfig c;
  auto channels = io::side_of(shapes, kCausalFirst, 1, kCausalWhat);
  c.in_time = shapes.at(kCausalFirst).size() == 5;
  c.shortcuts = shapes.contains(down_block(0) + ".resnets.0.conv1.weight");
  if (c.shortcuts && c.in_time && channels == 12) c.pixels.patch = 2;
  else c.pixels.channels = channels;
  c.first_channels = io::side_of(shapes, kCausalFirst, 0, kCausalWhat);
  c.latent_channels = io::side_of(shapes, "decoder.conv_in.weight", 1, kCausalWhat);
  c.block_out_channels.clear();
  c.layers_per_block = 0;
  if (c.shortcuts) read_named_levels(c, shapes);
  else read_levels(c, shapes);
  if (c.is_flat()) c.halves_frames = all_but_first(c.block_out_channels.size());
  if (c.block_out_channels.empty()) data_error("models", "the autoencoder's weights lack the tensor '{}.conv1.weight'", down_block(0));
  c.decoder_channels = decoder_levels(c.block_out_channels, shapes);
  return c;
}

/// Refuses a config.json that says otherwise than the shapes. For pictures, the steps that halve the frames were left out of them.
void check_causal_shapes(const CausalConfig& c, const nlohmann::json& json, const io::Shapes& shapes) {
  io::agree(json, "base_dim", c.first_channels, kCausalWhat);
  io::agree(json, "z_dim", c.latent_channels, kCausalWhat);
  io::agree(json, "num_res_blocks", c.layers_per_block, kCausalWhat);
  if (c.in_time) io::agree(json, "temperal_downsample", c.halves_frames, kCausalWhat);
  for (const char* key : {"input_channels", "in_channels"})
    io::agree(json, key, io::side_of(shapes, kCausalFirst, 1, kCausalWhat), kCausalWhat);
  io::agree(json, "out_channels", io::side_of(shapes, "decoder.conv_out.weight", 0, kCausalWhat), kCausalWhat);
  if (c.pixels.patch > 1) io::agree(json, "patch_size", c.pixels.patch, kCausalWhat);
  io::agree(json, "is_residual", c.shortcuts, kCausalWhat);
  std::vector<int64_t> times;
  for (auto channels : c.block_out_channels) times.push_back(channels / c.first_channels);
  io::agree(json, "dim_mult", times, kCausalWhat);
}

}  // namespace

/// Reads what config.json alone says of a flat autoencoder.
static void read_flat(CausalConfig& c, const nlohmann::json& json) {
  if (c.latent_channels == std::ssize(kMeanOf64)) c.latents_mean = kMeanOf64, c.latents_std = kDeviationOf64;
  io::take(json, "temperal_downsample", c.halves_frames, kCausalWhat);
  if (c.halves_frames.size() + 1 != c.block_out_channels.size())
    data_error("models", "the autoencoder's config.json has {} numbers temperal_downsample for {} levels, which have one step fewer",
               c.halves_frames.size(), c.block_out_channels.size());
}

CausalConfig flat_causal_config() {
  return {.first_channels = 96,
          .block_out_channels = {96, 192, 384, 768, 768},
          .decoder_channels = {144, 288, 576, 1152, 1152},
          .latent_channels = 64,
          .latents_mean = kMeanOf64,
          .latents_std = kDeviationOf64,
          .halves_frames = {false, true, true, true},
          .shortcuts = true,
          .pixels = {.channels = 4}};
}

CausalConfig causal_config(const nlohmann::json& json, const io::Shapes& shapes) {
  auto c = causal_sizes(shapes);
  check_causal_shapes(c, json, shapes);
  if (c.in_time && c.shortcuts && c.latent_channels == std::ssize(kMeanOf48)) c.latents_mean = kMeanOf48, c.latents_std = kDeviationOf48;
  if (c.is_flat()) read_flat(c, json);
  io::take(json, "latents_mean", c.latents_mean, kCausalWhat);
  io::take(json, "latents_std", c.latents_std, kCausalWhat);
  check_latents(c);
  return c;
}

io::TensorSource causal_tensors(const io::TensorSource& source, CausalFor use) {
  if (use == CausalFor::clips) return source;
  return source.renamed([](const std::string& name) { return name.find(".time_conv.") == name.npos ? name : ""; });
}

bool is_flat_causal(const io::TensorSource& source) {
  // Kernels without a length in time alone tell nothing: those of models that are only named have none.
  const std::vector<std::string> levels{"encoder.down_blocks.0.resnets.0.conv1.weight",
                                        "encoder.downsamples.0.downsamples.0.residual.2.weight"};
  return std::ranges::any_of(levels, [&](const std::string& name) { return source.contains(name) && source.info(name).shape.size() == 4; });
}

io::KeyMap diffusers_causal_keys(CausalFor use) {
  if (use == CausalFor::clips) return {};
  CausalRules all;
  auto add = [&](const std::string& layer) { all.rules.push_back({layer + ".weight", {layer + ".weight"}, Op::last_frame}); };
  for (const char* layer : {"quant_conv", "post_quant_conv", "encoder.conv_in", "encoder.conv_out", "decoder.conv_in", "decoder.conv_out"})
    add(layer);
  for (const std::string block :
       {"encoder.down_blocks.{}", "encoder.mid_block.resnets.{}", "decoder.mid_block.resnets.{}", "decoder.up_blocks.{}.resnets.{}"}) {
    for (const auto& [old, now] : kConvsOfResnet) add(block + "." + now);
  }
  return io::KeyMap(all.rules);
}

/// Adds those of levels that have lists of their own, as Wan 2.2's autoencoder: the step to the next one is the last of a list.
static io::KeyMap levels_by_name(CausalRules all, const CausalConfig& c) {
  const auto blocks = c.layers_per_block;
  all.resnet("encoder.downsamples.{}.downsamples.{}", "encoder.down_blocks.{}.resnets.{}");
  all.resnet("decoder.upsamples.{}.upsamples.{}", "decoder.up_blocks.{}.resnets.{}");
  all.step("encoder.downsamples.{}.downsamples." + std::to_string(blocks), "encoder.down_blocks.{}.downsampler");
  all.step("decoder.upsamples.{}.upsamples." + std::to_string(blocks + 1), "decoder.up_blocks.{}.upsampler");
  return io::KeyMap(all.rules);
}

// Facts: Wan-Video/Wan2.1's modules/vae.py and diffusers' convert_wan_to_diffusers.py.
io::KeyMap original_causal_keys(const CausalConfig& c) {
  CausalRules all{.in_time = c.in_time, .is_flat = c.is_flat()};
  all.conv("conv1", "quant_conv");
  all.conv("conv2", "post_quant_conv");
  for (const std::string side : {"encoder", "decoder"}) {
    all.conv(side + ".conv1", side + ".conv_in");
    all.norm(side + ".head.0", side + ".norm_out");
    all.conv(side + ".head.2", side + ".conv_out");
    all.resnet(side + ".middle.0", side + ".mid_block.resnets.0");
    all.resnet(side + ".middle.2", side + ".mid_block.resnets.1");
    auto theirs = side + ".middle.1.", ours = side + ".mid_block.attentions.0.";
    all.norm(theirs + "norm", ours + "norm");
    for (const char* layer : {"to_qkv", "proj"}) all.plain_conv(theirs + layer, ours + layer);
  }
  if (c.shortcuts) return levels_by_name(all, c);
  all.resnet("encoder.downsamples.{}", "encoder.down_blocks.{}");
  all.step("encoder.downsamples.{}", "encoder.down_blocks.{}");
  int64_t number = 0;
  for (size_t level = 0; level < c.block_out_channels.size(); ++level) {
    auto ours = "decoder.up_blocks." + std::to_string(level);
    auto next = [&] { return "decoder.upsamples." + std::to_string(number++); };
    for (int64_t i = 0; i <= c.layers_per_block; ++i) all.resnet(next(), ours + ".resnets." + std::to_string(i));
    if (level + 1 < c.block_out_channels.size()) all.step(next(), ours + ".upsamplers.0");
  }
  return io::KeyMap(all.rules);
}

io::KeyMap causal_keys(const io::TensorSource& source, CausalFor use) {
  const std::string list = "encoder.downsamples.0.downsamples.";
  if (source.contains(list + "0.residual.2.weight")) {
    int64_t blocks = 1;
    while (source.contains(list + std::to_string(blocks) + ".residual.2.weight")) ++blocks;
    return original_causal_keys({.layers_per_block = blocks, .in_time = use == CausalFor::clips, .shortcuts = true});
  }
  if (!source.contains("encoder.downsamples.0.residual.2.weight")) return diffusers_causal_keys(use);
  // Numbers of the decoder's layers follow from the encoder's sizes, whose names need none.
  auto shapes = io::shapes_in_our_names(source, original_causal_keys({.in_time = use == CausalFor::clips}));
  return original_causal_keys(causal_sizes(shapes));
}

}  // namespace burnish::models::vae
