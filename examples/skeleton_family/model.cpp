#include "model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/tensor.h>

#include "nn/attention.h"

namespace burnish::models::skeleton {

constexpr double kEps = 1e-5;

MlpBlock::MlpBlock(int64_t width, const at::TensorOptions& options)
    : norm_(width, kEps, options), up_(width, 2 * width, options), down_(2 * width, width, options) {
  own("norm", norm_);
  own("up", up_);
  own("down", down_);
}

nn::Tensors MlpBlock::body(const nn::Tensors& in) { return {in[0] + down_.forward(at::gelu(up_.forward(norm_.forward(in[0]))))}; }

TextBody::TextBody(const Config& c, const at::TensorOptions& options)
    : config_(c),
      bytes_(256, c.encoder_width, options),
      positions_(c.text_length, c.encoder_width, options),
      block_(c.encoder_width, options) {
  own("bytes", bytes_);
  own("positions", positions_);
  own("block", block_);
}

at::Tensor TextBody::forward(const std::string& text) {
  std::vector<int64_t> ids(static_cast<size_t>(config_.text_length), 0);
  for (size_t i = 0; i < ids.size() && i < text.size(); ++i) ids[i] = static_cast<unsigned char>(text[i]);
  auto ids_L = at::tensor(ids, at::kLong).to(bytes_.weight.device());
  auto x = bytes_.forward(ids_L) + positions_.forward(at::arange(config_.text_length, ids_L.options()));
  return block_.run({x.unsqueeze(0)})[0];
}

Projector::Projector(const Config& c, const at::TensorOptions& options)
    : norm_(c.encoder_width, kEps, options), linear_(c.encoder_width, c.width, options) {
  own("norm", norm_);
  own("linear", linear_);
}

at::Tensor Projector::forward(const at::Tensor& features_BLE) { return linear_.forward(norm_.forward(features_BLE)); }

TextEncoder::TextEncoder(const Config& c, const at::TensorOptions& options, bool with_body, bool with_projector) {
  if (with_body) own("body", *(body = std::make_unique<TextBody>(c, options)));
  if (with_projector) own("projector", *(projector = std::make_unique<Projector>(c, options)));
}

Autoencoder::Autoencoder(const Config& c, const at::TensorOptions& options)
    : config_(c), encoder_(3 * c.patch * c.patch, c.latent_channels, options), decoder_(c.latent_channels, 3 * c.patch * c.patch, options) {
  own("encoder", encoder_);
  own("decoder", decoder_);
}

at::Tensor Autoencoder::encode(const at::Tensor& image) {
  const auto clip = image.dim() == 5 ? image.slice(2, 0, std::nullopt, 2) : image.unsqueeze(2);
  auto p = config_.patch, b = clip.size(0), f = clip.size(2), h = clip.size(3) / p, w = clip.size(4) / p;
  auto patches = clip.reshape({b, 3, f, h, p, w, p}).permute({0, 2, 3, 5, 1, 4, 6}).reshape({b, f, h, w, 3 * p * p});
  return encoder_.forward(patches).permute({0, 4, 1, 2, 3});
}

at::Tensor Autoencoder::decode(const at::Tensor& latents) {
  auto p = config_.patch, b = latents.size(0), f = latents.size(2), h = latents.size(3), w = latents.size(4);
  auto patches = decoder_.forward(latents.permute({0, 2, 3, 4, 1})).reshape({b, f, h, w, 3, p, p});
  auto frames = patches.permute({0, 4, 1, 2, 5, 3, 6}).reshape({b, 3, f, h * p, w * p});
  if (f == 1) return frames.squeeze(2);
  return at::cat({frames.narrow(2, 0, 1), frames.narrow(2, 1, f - 1).repeat_interleave(2, 2)}, 2);
}

DenoiserBlock::DenoiserBlock(int64_t width, const at::TensorOptions& options)
    : norm_(width, kEps, options),
      to_q_(width, width, options),
      to_k_(width, width, options),
      to_v_(width, width, options),
      to_out_(width, width, options),
      mlp_(width, options) {
  own("norm", norm_);
  own("to_q", to_q_);
  own("to_k", to_k_);
  own("to_v", to_v_);
  own("to_out", to_out_);
  own("mlp", mlp_);
}

nn::Tensors DenoiserBlock::body(const nn::Tensors& in) {
  const auto &x = in[0], &text = in[1];
  auto heads = [](const at::Tensor& t) { return nn::split_heads(t, 2); };
  auto normed = norm_.forward(x);
  auto context = at::cat({normed, text}, 1);
  auto attended = nn::attention(heads(to_q_.forward(normed)), heads(to_k_.forward(context)), heads(to_v_.forward(context)));
  return mlp_.body({x + to_out_.forward(nn::merge_heads(attended))});
}

Denoiser::Denoiser(const Config& c, const at::TensorOptions& options)
    : config_(c),
      patch_in_(c.latent_channels, c.width, options),
      time_in_(1, c.width, options),
      patch_out_(c.width, c.latent_channels, options) {
  own("patch_in", patch_in_);
  own("time_in", time_in_);
  for (int64_t i = 0; i < c.num_blocks; ++i) {
    blocks_.push_back(std::make_unique<DenoiserBlock>(c.width, options));
    own("blocks." + std::to_string(i), *blocks_.back());
  }
  own("patch_out", patch_out_);
}

at::Tensor Denoiser::forward(const at::Tensor& noisy_BCFHW, const at::Tensor& sigma_B, const at::Tensor& text_BLE) {
  auto tokens = noisy_BCFHW.flatten(2).transpose(1, 2).to(text_BLE.dtype());
  auto x = patch_in_.forward(tokens) + time_in_.forward(sigma_B.to(text_BLE.dtype()).reshape({-1, 1, 1}));
  for (auto& block : blocks_) x = block->run({x, text_BLE})[0];
  return patch_out_.forward(x).transpose(1, 2).reshape(noisy_BCFHW.sizes());
}

}  // namespace burnish::models::skeleton
