#include "models/families/ltx2/sound_autoencoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <string>
#include <vector>

#include "base/input_error.h"
#include "models/families/ltx2/bands.h"
#include "models/families/ltx2/halves.h"
#include "nn/linear.h"

namespace burnish::models::ltx2 {

namespace {

constexpr double kBandsEps = 1e-6;
constexpr int64_t kWindowDim = 2, kStep = 2;

kernels::Window bands_window(int64_t kernel, int64_t stride, int64_t beside) {
  return {.kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {0, beside}, .dilation = {1, 1}};
}

/// A convolution over windows and bands that sees the windows before, zeros before a sound.
class BandConv : public nn::Module {
 public:
  BandConv(int64_t in, int64_t out, int64_t kernel, const at::TensorOptions& o)
      : num_before_(kernel - 1), conv_(in, out, bands_window(kernel, 1, kernel / 2), o) {
    own("conv", conv_);
  }
  at::Tensor forward(const at::Tensor& x) const { return conv_.forward(at::constant_pad_nd(x, {0, 0, num_before_, 0})); }

 private:
  int64_t num_before_;
  nn::Conv conv_;
};

/// SiLU of x / √(mean of x² over the channels of a place + 1e-6).
at::Tensor activated(const at::Tensor& x) {
  auto normed = x / (x.square().mean(1, /*keepdim=*/true) + kBandsEps).sqrt();
  return at::silu_(normed);
}

class BandResnet : public nn::Module {
 public:
  BandResnet(int64_t in, int64_t out, const at::TensorOptions& o) : conv1_(in, out, 3, o), conv2_(out, out, 3, o) {
    own("conv1", conv1_);
    own("conv2", conv2_);
    if (in != out) own("nin_shortcut", *(shortcut_ = std::make_unique<BandConv>(in, out, 1, o)));
  }
  at::Tensor forward(const at::Tensor& x) const {
    return (shortcut_ ? shortcut_->forward(x) : x) + conv2_.forward(activated(conv1_.forward(activated(x))));
  }

 private:
  BandConv conv1_, conv2_;
  std::unique_ptr<BandConv> shortcut_;
};

/// The residual blocks of a level, of which the first may change the channels.
struct BandLevel : nn::Module {
  BandLevel(int64_t in, int64_t out, int64_t count, const at::TensorOptions& o) {
    for (int64_t i = 0; i < count; ++i) {
      resnets.push_back(std::make_unique<BandResnet>(i == 0 ? in : out, out, o));
      own("block." + std::to_string(i), *resnets.back());
    }
  }
  at::Tensor forward(at::Tensor x) const {
    for (const auto& resnet : resnets) x = resnet->forward(x);
    return x;
  }
  std::vector<std::unique_ptr<BandResnet>> resnets;
};

/// Two residual blocks of the narrowest level.
struct BandMiddle : nn::Module {
  BandMiddle(int64_t channels, const at::TensorOptions& o) : first(channels, channels, o), second(channels, channels, o) {
    own("block_1", first);
    own("block_2", second);
  }
  at::Tensor forward(const at::Tensor& x) const { return second.forward(first.forward(x)); }
  BandResnet first, second;
};

/// One number for each number of a latent, of x [B, C, L].
at::Tensor of_latents(const at::Tensor& numbers, const at::Tensor& x) { return numbers.to(x.scalar_type()).view({1, -1, 1}); }

}  // namespace

struct SoundAutoencoder::Encoder : nn::Module {
  Encoder(const SoundConfig& c, const at::TensorOptions& o)
      : conv_in(c.num_sides, c.first_channels, 3, o),
        middle(c.channels.back(), o),
        conv_out(c.channels.back(), 2 * c.latent_channels, 3, o) {
    own("conv_in", conv_in);
    auto in = c.first_channels;
    for (auto channels : c.channels) {
      const auto name = "down." + std::to_string(levels.size());
      levels.push_back(std::make_unique<BandLevel>(in, channels, c.num_resnets, o));
      own(name, *levels.back());
      in = channels;
      if (levels.size() == c.channels.size()) break;
      steps.push_back(std::make_unique<nn::Conv>(channels, channels, bands_window(3, kStep, 0), o));
      own(name + ".downsample.conv", *steps.back());
    }
    own("mid", middle);
    own("conv_out", conv_out);
  }
  at::Tensor forward(const at::Tensor& bands) const {
    auto x = conv_in.forward(bands);
    for (size_t i = 0; i < levels.size(); ++i) {
      x = levels[i]->forward(x);
      // Two windows before the first and one band behind the last are zeros.
      if (i < steps.size()) x = steps[i]->forward(at::constant_pad_nd(x, {0, 1, 2, 0}));
    }
    return conv_out.forward(activated(middle.forward(x)));
  }
  BandConv conv_in;
  std::vector<std::unique_ptr<BandLevel>> levels;
  std::vector<std::unique_ptr<nn::Conv>> steps;
  BandMiddle middle;
  BandConv conv_out;
};

struct SoundAutoencoder::Decoder : nn::Module {
  Decoder(const SoundConfig& c, const at::TensorOptions& o)
      : conv_in(c.latent_channels, c.channels.back(), 3, o), middle(c.channels.back(), o), conv_out(c.channels.front(), c.num_sides, 3, o) {
    own("conv_in", conv_in);
    own("mid", middle);
    auto in = c.channels.back();
    for (auto i = c.channels.size(); i-- > 0;) {
      const auto name = "up." + std::to_string(i);
      levels.push_back(std::make_unique<BandLevel>(in, c.channels[i], c.num_resnets + 1, o));
      own(name, *levels.back());
      in = c.channels[i];
      if (i == 0) break;
      steps.push_back(std::make_unique<BandConv>(in, in, 3, o));
      own(name + ".upsample.conv", *steps.back());
    }
    own("conv_out", conv_out);
  }
  at::Tensor forward(const at::Tensor& latents) const {
    auto x = middle.forward(conv_in.forward(latents));
    for (size_t i = 0; i < levels.size(); ++i) {
      x = levels[i]->forward(x);
      if (i == steps.size()) break;
      const auto twice = at::upsample_nearest2d(x, {kStep * x.size(2), kStep * x.size(3)});
      // The first latent stands for one window.
      x = steps[i]->forward(twice).narrow(kWindowDim, 1, twice.size(kWindowDim) - 1);
    }
    return conv_out.forward(activated(x));
  }
  BandConv conv_in;
  BandMiddle middle;
  std::vector<std::unique_ptr<BandLevel>> levels;
  std::vector<std::unique_ptr<BandConv>> steps;
  BandConv conv_out;
};

SoundAutoencoder::SoundAutoencoder(const SoundConfig& c, const at::TensorOptions& o)
    : config_(c), mean_(at::empty({c.width()}, o)), deviation_(at::empty({c.width()}, o)) {
  own("latents_mean", mean_);
  own("latents_std", deviation_);
  if (c.has_encoder) own("encoder", *(encoder_ = std::make_unique<Encoder>(c, o)));
  if (c.has_decoder) own("decoder", *(decoder_ = std::make_unique<Decoder>(c, o)));
}

SoundAutoencoder::~SoundAutoencoder() = default;

at::Tensor SoundAutoencoder::encode(const at::Tensor& samples) const {
  if (!encoder_) data_error("models", "the files of the autoencoder of sound hold its decoder alone; name the file of its encoder too");
  const auto bands = log_bands(samples, config_.bands).to(mean_.scalar_type());
  const auto mean_BCLb = encoder_->forward(bands).narrow(1, 0, config_.latent_channels);
  const auto latents = mean_BCLb.transpose(2, 3).flatten(1, 2);
  return (latents - of_latents(mean_, latents)) / of_latents(deviation_, latents);
}

at::Tensor SoundAutoencoder::decode(const at::Tensor& latents) const {
  if (!decoder_) data_error("models", "the files of the autoencoder of sound hold its encoder alone; name the file of its decoder too");
  const auto given = latents.to(mean_.scalar_type());
  const auto raw = given * of_latents(deviation_, given) + of_latents(mean_, given);
  return decoder_->forward(raw.unflatten(1, {config_.latent_channels, -1}).transpose(2, 3).contiguous());
}

Source find_sound(const ModelFiles& files) {
  const auto found = find_halves(files, {.encoder = {"encoder.down.0.block.0.conv1.conv.weight"},
                                         .decoder = {"decoder.up.0.block.0.conv1.conv.weight"},
                                         .prefixes = {"", "audio_vae."}});
  if (!found.tensors) return {};
  io::KeyMap keys;
  if (found.is_original) keys = original_statistics();
  return {found.entry(), found.tensors, keys, found.is_original};
}

}  // namespace burnish::models::ltx2
