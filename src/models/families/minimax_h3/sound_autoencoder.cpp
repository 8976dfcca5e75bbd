#include "models/families/minimax_h3/sound_autoencoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <string>
#include <vector>

#include "models/parts/find_components.h"
#include "nn/attention.h"
#include "nn/layers.h"

namespace burnish::models::minimax_h3 {

namespace {

const std::string kSoundMark = "pre_block.attn.qkv.weight";
constexpr double kNormEps = 1e-5;

/// One number for each channel of x [B, C, L].
at::Tensor along_time(const std::vector<double>& numbers, const at::Tensor& x) {
  return at::tensor(numbers, x.options().dtype(at::kFloat)).view({1, -1, 1});
}

/// Two convolutions, the first dilated, added to what they see.
class SoundUnit : public nn::Module {
 public:
  SoundUnit(const SoundConfig& c, int64_t channels, int64_t dilation, const at::TensorOptions& o)
      : snake1_(channels, o),
        snake2_(channels, o),
        conv1_(channels, channels, {.kernel = 7, .padding = 3 * dilation, .dilation = dilation, .is_normed = c.has_weight_norm}, o),
        conv2_(channels, channels, {.is_normed = c.has_weight_norm}, o) {
    own("block.0", snake1_);
    own("block.1", conv1_);
    own("block.2", snake2_);
    own("block.3", conv2_);
  }
  at::Tensor forward(const at::Tensor& x) const { return x + conv2_.forward(snake2_.forward(conv1_.forward(snake1_.forward(x)))); }

 private:
  Snake snake1_, snake2_;
  TimeConv conv1_, conv2_;
};

/// Three of these, then a convolution that steps and doubles the channels.
class SoundLevel : public nn::Module {
 public:
  SoundLevel(const SoundConfig& c, int64_t channels, int64_t step, const at::TensorOptions& o)
      : snake_(channels, o),
        step_(channels, 2 * channels, {.kernel = 2 * step, .stride = step, .padding = (step + 1) / 2, .is_normed = c.has_weight_norm}, o) {
    for (int64_t dilation : {1, 3, 9}) {
      units_.push_back(std::make_unique<SoundUnit>(c, channels, dilation, o));
      own("block." + std::to_string(units_.size() - 1), *units_.back());
    }
    own("block.3", snake_);
    own("block.4", step_);
  }
  at::Tensor forward(at::Tensor x) const {
    for (const auto& unit : units_) x = unit->forward(x);
    return step_.forward(snake_.forward(x));
  }

 private:
  std::vector<std::unique_ptr<SoundUnit>> units_;
  Snake snake_;
  TimeConv step_;
};

/// Runs causal attention over x [B, L, W] and takes the mean over its heads, and of that the means of neighbours: [B, L, C].
class NarrowingAttention : public nn::Module {
 public:
  NarrowingAttention(const SoundConfig& c, const at::TensorOptions& o)
      : num_heads_(c.encoder.num_heads),
        width_(c.latent_channels),
        qkv_(c.width, 3 * c.width, o, /*with_bias=*/false),
        out_(c.latent_channels, c.latent_channels, o),
        q_bias_(at::empty({c.width}, o)),
        v_bias_(at::empty({c.width}, o)) {
    own("qkv", qkv_);
    own("q_bias", q_bias_);
    own("v_bias", v_bias_);
    own("proj", out_);
  }
  at::Tensor forward(const at::Tensor& x) const {
    const auto bias = at::cat({q_bias_, at::zeros_like(q_bias_), v_bias_});
    const auto parts = (qkv_.forward(x) + bias).unflatten(2, {3, num_heads_, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
    const auto heads = nn::attention(parts[0].contiguous(), parts[1].contiguous(), parts[2].contiguous(), {}, /*causal=*/true);
    return out_.forward(heads.mean(1).unflatten(2, {width_, -1}).mean(3));
  }

 private:
  int64_t num_heads_, width_;
  nn::Linear qkv_, out_;
  at::Tensor q_bias_, v_bias_;
};

/// Computes w2(GELU(w0 x) · w1 x) of what its norm makes of x.
class SoundMlp : public nn::Module {
 public:
  SoundMlp(const SoundConfig& c, const at::TensorOptions& o)
      : norm_(c.latent_channels, kNormEps, o),
        gate_(c.latent_channels, 2 * c.latent_channels, o),
        in_(c.latent_channels, 2 * c.latent_channels, o),
        out_(2 * c.latent_channels, c.latent_channels, o) {
    own("norm", norm_);
    own("w0", gate_);
    own("w1", in_);
    own("w2", out_);
  }
  at::Tensor forward(const at::Tensor& x) const {
    const auto normed = norm_.forward(x);
    return out_.forward(at::gelu(gate_.forward(normed), "tanh") * in_.forward(normed));
  }

 private:
  nn::LayerNorm norm_;
  nn::Linear gate_, in_, out_;
};

}  // namespace

struct SoundAutoencoder::Encoder : nn::Module {
  Encoder(const SoundConfig& c, const at::TensorOptions& o)
      : in(1, c.encoder.channels, {.kernel = 7, .padding = 3, .is_normed = c.has_weight_norm}, o) {
    own("block.0", in);
    auto channels = c.encoder.channels;
    for (auto step : c.encoder.steps) {
      levels.push_back(std::make_unique<SoundLevel>(c, channels, step, o));
      own("block." + std::to_string(levels.size()), *levels.back());
      channels *= 2;
    }
    snake = std::make_unique<Snake>(channels, o);
    out = std::make_unique<TimeConv>(channels, c.width, TimeSteps{.kernel = 3, .padding = 1, .is_normed = c.has_weight_norm}, o);
    own("block." + std::to_string(levels.size() + 1), *snake);
    own("block." + std::to_string(levels.size() + 2), *out);
  }
  at::Tensor forward(const at::Tensor& samples_B1N) const {
    auto x = in.forward(samples_B1N);
    for (const auto& level : levels) x = level->forward(x);
    return out->forward(snake->forward(x));
  }
  TimeConv in;
  std::vector<std::unique_ptr<SoundLevel>> levels;
  std::unique_ptr<Snake> snake;
  std::unique_ptr<TimeConv> out;
};

/// Narrows x [B, L, W] to latents: causal attention, of which the mean over all heads is kept and of that the means of neighbours, beside
/// one linear layer, and behind them a gated MLP.
struct SoundAutoencoder::Narrowing : nn::Module {
  Narrowing(const SoundConfig& c, const at::TensorOptions& o)
      : norm1(c.width, kNormEps, o),
        norm3(c.width, kNormEps, o),
        norm2(c.latent_channels, kNormEps, o),
        attention(c, o),
        straight(c.width, c.latent_channels, o),
        mlp(c, o) {
    own("norm1", norm1);
    own("norm2", norm2);
    own("norm3", norm3);
    own("attn", attention);
    own("proj", straight);
    own("mlp", mlp);
  }
  at::Tensor forward(const at::Tensor& x) const {
    const auto y = straight.forward(norm3.forward(x)) + attention.forward(norm1.forward(x));
    return y + mlp.forward(norm2.forward(y));
  }
  nn::LayerNorm norm1, norm3, norm2;
  NarrowingAttention attention;
  nn::Linear straight;
  SoundMlp mlp;
};

SoundAutoencoder::SoundAutoencoder(const SoundConfig& c, const at::TensorOptions& o)
    : config_(c),
      encoder_(std::make_unique<Encoder>(c, o)),
      narrowing_(std::make_unique<Narrowing>(c, o)),
      mean_(c.latent_channels, c.latent_channels, {.is_normed = false}, o),
      in_(c.latent_channels, c.width, {.is_normed = false}, o),
      decoder_(c, o) {
  own("encoder", *encoder_);
  own("pre_block", *narrowing_);
  own("mean_proj", mean_);
  own("dec_in_proj", in_);
  own("decoder", decoder_);
}

SoundAutoencoder::~SoundAutoencoder() = default;

at::Tensor SoundAutoencoder::encode(const at::Tensor& samples_BN) const {
  const auto in_latent = config_.samples_per_latent(), length = samples_BN.size(1);
  const auto padded = at::constant_pad_nd(samples_BN.to(at::kFloat), {0, (in_latent - length % in_latent) % in_latent});
  const auto wide = encoder_->forward(padded.unsqueeze(1));
  const auto mean = mean_.forward(narrowing_->forward(wide.transpose(1, 2)).transpose(1, 2));
  return (mean - along_time(config_.latents_mean, mean)) / along_time(config_.latents_std, mean);
}

at::Tensor SoundAutoencoder::decode(const at::Tensor& latents) const {
  const auto raw = latents.to(at::kFloat) * along_time(config_.latents_std, latents) + along_time(config_.latents_mean, latents);
  return decoder_.forward(in_.forward(raw)).squeeze(1);
}

Source find_sound(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    const auto tensors = find_below(entry, {"", "audio_vae."}, kSoundMark);
    if (!tensors) continue;
    // Deviations are not asked for, and the filters are computed.
    return {&entry,
            tensors->renamed([](const std::string& name) {
              const bool is_run = !name.ends_with(".filter") && !name.ends_with(".zero_k_bias") && !name.starts_with("logs_proj.");
              return is_run ? name : std::string();
            }),
            {}};
  }
  return {};
}

}  // namespace burnish::models::minimax_h3
