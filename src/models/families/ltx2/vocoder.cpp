#include "models/families/ltx2/vocoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tanh.h>

#include <string>
#include <vector>

#include "models/families/ltx2/vocoder_layers.h"

namespace burnish::models::ltx2 {

namespace {

constexpr int64_t kOuterKernel = 7;
/// The slope of the last rectifier, which is PyTorch's own and none of the settings.
constexpr double kLastSlope = 0.01, kQuietest = 1e-5;
const std::string kFirstNetwork = "vocoder.", kSecondNetwork = "bwe_generator.";

}  // namespace

namespace {

/// The names of a network's tensors in original files, and ours beside them, which are those of diffusers.
std::vector<std::pair<std::string, std::string>> names_of_network() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const std::string part : {".weight", ".bias"}) {
    names.insert(names.end(), {{"conv_pre" + part, "conv_in" + part}, {"conv_post" + part, "conv_out" + part}});
    names.emplace_back("ups.{}" + part, "upsamplers.{}" + part);
    for (const std::string convs : {".convs1.{}", ".convs2.{}"})
      names.emplace_back("resblocks.{}" + convs + part, "resnets.{}" + convs + part);
  }
  for (const auto& [theirs, ours] :
       {std::pair(".act.alpha", ".act.alpha"), std::pair(".act.beta", ".act.beta"), std::pair(".upsample.filter", ".upsample.filter"),
        std::pair(".downsample.lowpass.filter", ".downsample.filter")}) {
    names.emplace_back(std::string("act_post") + theirs, std::string("act_out") + ours);
    for (const std::string acts : {".acts1.{}", ".acts2.{}"})
      names.emplace_back("resblocks.{}" + acts + theirs, "resnets.{}" + acts + ours);
  }
  return names;
}

}  // namespace

io::KeyMap original_vocoder_keys() {
  std::vector<io::KeyRule> rules;
  for (const auto& network : {kFirstNetwork, kSecondNetwork}) {
    for (const auto& [theirs, ours] : names_of_network()) rules.push_back({network + theirs, {network + ours}});
  }
  return io::KeyMap(rules);
}

io::KeyMap folder_vocoder_keys(const VocoderConfig& config) {
  std::vector<io::KeyRule> rules;
  if (config.second) return {};
  for (const auto& [theirs, ours] : names_of_network()) rules.push_back({ours, {kFirstNetwork + ours}});
  return io::KeyMap(rules);
}

namespace {

/// Tells whether a tensor of a vocoder of two networks is read: inverse waves and computed filters are not.
bool is_run_of_two(const std::string& name) {
  return name.starts_with(kFirstNetwork) || name.starts_with(kSecondNetwork) || name == "mel_stft.mel_basis" ||
         name == "mel_stft.stft_fn.forward_basis";
}

}  // namespace

class Vocoder::Generator : public nn::Module {
 public:
  Generator(const GeneratorConfig& c, const at::TensorOptions& o)
      : config_(c), in_(time_conv(c.num_bands, c.channels, kOuterKernel, 1, o)) {
    own("conv_in", *in_);
    auto channels = c.channels;
    for (size_t i = 0; i < c.steps.size(); ++i) {
      steps_.push_back(std::make_unique<WideningConv>(channels, channels / 2, c.kernels[i], c.steps[i], o));
      own("upsamplers." + std::to_string(i), *steps_.back());
      channels /= 2;
      for (size_t k = 0; k < c.block_kernels.size(); ++k) {
        const auto name = "resnets." + std::to_string(blocks_.size());
        blocks_.push_back(std::make_unique<VocoderBlock>(c, channels, k, o));
        own(name, *blocks_.back());
      }
    }
    if (c.activation.is_smooth) own("act_out", *(wave_ = std::make_unique<SmoothWave>(channels, true, c.activation.num_taps, o)));
    out_ = time_conv(channels, c.num_sides, kOuterKernel, 1, o, c.has_last_bias);
    own("conv_out", *out_);
  }
  /// Maps bands [B, S, T, bands] -> samples [B, S, N].
  at::Tensor forward(const at::Tensor& bands) const {
    auto x = in_->forward(bands.transpose(2, 3).flatten(1, 2));
    const auto num_blocks = config_.block_kernels.size();
    for (size_t i = 0; i < steps_.size(); ++i) {
      x = steps_[i]->forward(config_.activation.is_smooth ? x : at::leaky_relu(x, config_.activation.slope));
      auto sum = blocks_[i * num_blocks]->forward(x);
      for (size_t k = 1; k < num_blocks; ++k) sum = sum + blocks_[i * num_blocks + k]->forward(x);
      x = sum / static_cast<double>(num_blocks);
    }
    x = out_->forward(wave_ ? wave_->forward(x) : at::leaky_relu(x, kLastSlope));
    if (config_.bound == Bound::none) return x;
    return config_.bound == Bound::tanh ? at::tanh(x) : x.clamp(-1, 1);
  }

 private:
  GeneratorConfig config_;
  std::unique_ptr<nn::Conv> in_, out_;
  std::vector<std::unique_ptr<WideningConv>> steps_;
  std::vector<std::unique_ptr<VocoderBlock>> blocks_;  ///< of each step as many as there are kernels
  std::unique_ptr<SmoothWave> wave_;
};

/// Hears the bands of samples in windows that end at each step, by waves and weights that files hold.
struct Vocoder::Hearing : nn::Module {
  Hearing(const HearingConfig& c, const at::TensorOptions& o)
      : config(c), waves(at::empty({c.window / 2 * 2 + 2, 1, c.window}, o)), weights(at::empty({c.num_bands, c.window / 2 + 1}, o)) {
    own("stft_fn.forward_basis", waves);
    own("mel_basis", weights);
  }
  /// Maps samples [B, S, N] -> the logarithm of the strength of bands [B, S, N / step, bands].
  at::Tensor forward(const at::Tensor& samples) const {
    const auto padded = at::constant_pad_nd(samples.flatten(0, 1).unsqueeze(1), {config.window - config.step, 0});
    const auto parts = at::conv1d(padded, waves, {}, at::IntArrayRef(config.step)).chunk(2, 1);
    const auto magnitudes = (parts[0].square() + parts[1].square()).sqrt();
    return at::matmul(weights, magnitudes).clamp_min(kQuietest).log().transpose(1, 2).unflatten(0, {-1, samples.size(1)});
  }
  HearingConfig config;
  at::Tensor waves, weights;
};

Vocoder::Vocoder(const VocoderConfig& c, const at::TensorOptions& o) : config_(c), first_(std::make_unique<Generator>(c.first, o)) {
  own("vocoder", *first_);
  if (!c.second) return;
  second_ = std::make_unique<Generator>(*c.second, o);
  hearing_ = std::make_unique<Hearing>(c.hearing, o);
  own("bwe_generator", *second_);
  own("mel_stft", *hearing_);
}

Vocoder::~Vocoder() = default;

at::Tensor Vocoder::forward(const at::Tensor& bands) const {
  auto samples = first_->forward(bands);
  if (!second_) return samples.clamp(-1, 1);
  const auto count = samples.size(2), step = config_.hearing.step, times = config_.rate / config_.first_rate;
  samples = at::constant_pad_nd(samples, {0, (step - count % step) % step});
  const auto all = second_->forward(hearing_->forward(samples)) + raised(samples, times);
  return all.clamp(-1, 1).narrow(2, 0, count * times);
}

Source find_vocoder(const ModelFiles& files) {
  const std::vector<std::string> prefixes{"", "vocoder."};
  const std::string original = "resblocks.0.convs1.0.weight", ours = "resnets.0.convs1.0.weight";
  for (const auto& entry : files.entries) {
    if (!entry.tensors) continue;
    const auto two = below_first(*entry.tensors, prefixes, {kSecondNetwork + original, kSecondNetwork + ours});
    const auto one = two ? two : below_first(*entry.tensors, prefixes, {original, ours});
    if (!one) continue;
    // One network alone has the names here that it has where there are two.
    const auto run = one->renamed([&](const std::string& name) {
      return !two ? kFirstNetwork + name : is_run_of_two(name) ? name : std::string();
    });
    const bool is_original = run.contains(kFirstNetwork + original);
    return {&entry, run, is_original ? original_vocoder_keys() : io::KeyMap(), is_original};
  }
  return {};
}

}  // namespace burnish::models::ltx2
