#include "models/families/ltx2/autoencoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/input_error.h"
#include "kernels/place.h"
#include "models/families/ltx2/frame_layers.h"
#include "models/vae/tiles.h"

namespace burnish::models::ltx2 {

namespace {

constexpr int64_t kNumColours = 3, kTimeDim = 2;
/// Latents in time that go through at once, behind the first.
constexpr int64_t kLatentsAtOnce = 2;

/// One number for each channel of x [B, C, F, H, W].
at::Tensor per_channel(const at::Tensor& numbers, const at::Tensor& x) { return numbers.to(x.scalar_type()).view({-1, 1, 1, 1}); }

/// Patches of pixels as places: their channels are those of colour, then column, then row.
at::Tensor in_patches(const at::Tensor& x, int64_t side) {
  return x.unflatten(4, {-1, side}).unflatten(3, {-1, side}).permute({0, 1, 6, 4, 2, 3, 5}).flatten(1, 3);
}

at::Tensor out_of_patches(const at::Tensor& x, int64_t side) {
  return x.unflatten(1, {-1, side, side}).permute({0, 1, 4, 5, 3, 6, 2}).flatten(5, 6).flatten(3, 4);
}

/// A CPU's convolutions over time take a clip with the channels of a place side by side, and would copy another layout.
at::Tensor laid_out(const at::Tensor& clip) {
  return kernels::runs_on_cpu(clip) ? clip.contiguous(at::MemoryFormat::ChannelsLast3d) : clip.contiguous();
}

/// Runs `part` on chunks of a clip: the first place in time with `count` others, then `count` each.
template <class Part>
at::Tensor in_chunks(const at::Tensor& clip, int64_t count, const Part& part) {
  Passage passage;
  std::vector<at::Tensor> results;
  const auto length = clip.size(kTimeDim);
  for (int64_t first = 0, end = std::min<int64_t>(1 + count, length); first < length; first = end, end = std::min(end + count, length)) {
    passage.begin_chunk(/*is_last=*/end == length);
    results.push_back(part(clip.narrow(kTimeDim, first, end - first), passage));
  }
  return results.size() == 1 ? results[0] : at::cat(results, kTimeDim);
}

}  // namespace

struct Autoencoder::Encoder : nn::Module {
  Encoder(const AutoencoderConfig& c, const at::TensorOptions& o)
      : patch(c.patch),
        conv_in(kNumColours * c.patch * c.patch, c.encoder.levels.front().channels, c.encoder, o),
        middle(c.encoder.num_middle, c.encoder.middle_channels, c.encoder, o),
        conv_out(c.encoder.middle_channels, c.latent_channels + 1, c.encoder, o) {
    own("conv_in", conv_in);
    const auto& all = c.encoder.levels;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto next = i + 1 < all.size() ? all[i + 1].channels : c.encoder.middle_channels;
      resnets.push_back(std::make_unique<FrameResnets>(all[i].num_resnets, all[i].channels, c.encoder, o));
      steps.push_back(std::make_unique<StepDown>(all[i].channels, next, all[i].step, c.encoder, o));
      const auto name = "down_blocks." + std::to_string(i);
      own(name, *resnets.back());
      own(name + ".downsamplers.0", *steps.back());
    }
    own("mid_block", middle);
    own("conv_out", conv_out);
  }
  at::Tensor forward(const at::Tensor& frames, Passage& passage) const {
    auto x = conv_in.forward(laid_out(in_patches(frames, patch)), passage);
    for (size_t i = 0; i < steps.size(); ++i) x = steps[i]->forward(resnets[i]->forward(x, passage), passage);
    return conv_out.forward(normed_silu(middle.forward(x, passage)), passage);
  }
  int64_t patch;
  FrameConv conv_in;
  std::vector<std::unique_ptr<FrameResnets>> resnets;
  std::vector<std::unique_ptr<StepDown>> steps;
  FrameResnets middle;
  FrameConv conv_out;
};

struct Autoencoder::Decoder : nn::Module {
  Decoder(const AutoencoderConfig& c, const at::TensorOptions& o)
      : patch(c.patch),
        conv_in(c.latent_channels, c.decoder.middle_channels, c.decoder, o),
        middle(c.decoder.num_middle, c.decoder.middle_channels, c.decoder, o),
        conv_out(c.decoder.levels.back().channels, kNumColours * c.patch * c.patch, c.decoder, o) {
    own("conv_in", conv_in);
    own("mid_block", middle);
    auto channels = c.decoder.middle_channels;
    for (const auto& level : c.decoder.levels) {
      const auto name = "up_blocks." + std::to_string(steps.size());
      steps.push_back(std::make_unique<StepUp>(channels, level, c.decoder, o));
      resnets.push_back(std::make_unique<FrameResnets>(level.num_resnets, level.channels, c.decoder, o));
      own(name + ".upsamplers.0", *steps.back());
      own(name, *resnets.back());
      channels = level.channels;
    }
    own("conv_out", conv_out);
  }
  at::Tensor forward(const at::Tensor& latents, Passage& passage) const {
    auto x = middle.forward(conv_in.forward(laid_out(latents), passage), passage);
    for (size_t i = 0; i < steps.size(); ++i) x = resnets[i]->forward(steps[i]->forward(x, passage), passage);
    return out_of_patches(conv_out.forward(normed_silu(x), passage), patch).contiguous();
  }
  int64_t patch;
  FrameConv conv_in;
  FrameResnets middle;
  std::vector<std::unique_ptr<StepUp>> steps;
  std::vector<std::unique_ptr<FrameResnets>> resnets;
  FrameConv conv_out;
};

Autoencoder::Autoencoder(const AutoencoderConfig& c, const at::TensorOptions& o)
    : config_(c), mean_(at::empty({c.latent_channels}, o)), deviation_(at::empty({c.latent_channels}, o)) {
  own("latents_mean", mean_);
  own("latents_std", deviation_);
  if (c.encoder.is_there) own("encoder", *(encoder_ = std::make_unique<Encoder>(c, o)));
  if (c.decoder.is_there) own("decoder", *(decoder_ = std::make_unique<Decoder>(c, o)));
}

Autoencoder::~Autoencoder() = default;

vae::Encoder::Moments Autoencoder::encode(const at::Tensor& frames) const {
  if (frames.dim() == 4) {
    auto moments = encode(frames.unsqueeze(kTimeDim));
    return {moments.mean_BCHW.squeeze(kTimeDim), moments.logvar_BCHW.squeeze(kTimeDim)};
  }
  if (!encoder_) data_error("models", "the files of the autoencoder hold its decoder alone; name the file of its encoder too");
  const auto down = config_.downsampling(), per_latent = config_.frames_per_latent();
  if ((frames.size(kTimeDim) - 1) % per_latent != 0 || frames.size(3) % down != 0 || frames.size(4) % down != 0)
    data_error("models", "the autoencoder takes clips of {}k + 1 frames with sides that are multiples of {}, and this one has {} of {}x{}",
               per_latent, down, frames.size(kTimeDim), frames.size(4), frames.size(3));
  const auto run = [&](const at::Tensor& tile) {
    return in_chunks(tile, kLatentsAtOnce * per_latent, [&](const at::Tensor& chunk, Passage& passage) {
      const bool is_bytes = chunk.scalar_type() == at::kByte;
      return encoder_->forward(is_bytes ? chunk.to(mean_.scalar_type()) / 127.5 - 1 : chunk.to(mean_.scalar_type()), passage);
    });
  };
  const auto both = vae::in_tiles(frames, config_.tile_size, config_.tile_size / down, run);
  const auto mean = both.narrow(1, 0, config_.latent_channels);
  // One number is the log of the variance of all of a place.
  const auto logvar = both.narrow(1, config_.latent_channels, 1).expand_as(mean).clamp(-30.0, 20.0);
  const auto deviation = per_channel(deviation_, mean);
  return {(mean - per_channel(mean_, mean)) / deviation, logvar - 2 * deviation.log()};
}

at::Tensor Autoencoder::decode(const at::Tensor& latents) const {
  if (latents.dim() == 4) return decode(latents.unsqueeze(kTimeDim)).squeeze(kTimeDim);
  if (!decoder_)
    data_error("models",
               "the files of the autoencoder hold no decoder that runs here; name the file of its decoder too, of LTX-2.5 the one of "
               "convolutions, ltx-2.5-video-vae-conv-bf16.safetensors");
  const auto given = latents.to(mean_.scalar_type());
  const auto raw = given * per_channel(deviation_, given) + per_channel(mean_, given);
  const auto run = [&](const at::Tensor& tile) {
    return in_chunks(tile, kLatentsAtOnce, [&](const at::Tensor& chunk, Passage& passage) { return decoder_->forward(chunk, passage); });
  };
  return vae::in_tiles(raw, config_.tile_size / config_.downsampling(), config_.tile_size, run).clamp(-1, 1);
}

}  // namespace burnish::models::ltx2
