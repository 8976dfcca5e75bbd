#include "models/families/wan/frames.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/input_error.h"

namespace burnish::models::wan {

namespace {

std::vector<std::string> read_with(GivenFrames given) {
  std::vector<std::string> reads{"image"};
  if (given.has_column) reads.emplace_back(kStartFrame.name);
  if (given.has_last) reads.emplace_back(kLastFrame.name);
  return reads;
}

at::Tensor first_frames(const pipeline::Scope& s, const at::Tensor& clip_BCFHW, GivenFrames given) {
  auto own = clip_BCFHW.select(2, 0);
  return given.has_column ? frames_in(s, kStartFrame.name, own) : own;
}

/// Tells whether it is TI2V-5B, which has the autoencoder of Wan 2.2.
bool is_of_wan_2_2(const Config& c, const vae::CausalConfig& autoencoder) { return c.out_channels == 48 || autoencoder.pixels.patch > 1; }

at::Tensor last_frames(const pipeline::Scope& s, const at::Tensor& clip_BCFHW) {
  const auto num_frames = clip_BCFHW.size(2);
  if (num_frames == 1)
    config_error(
        "models",
        "extra_inputs end_image gives a clip's last frame, and this one has no other than its first; take it out, or give clips of "
        "more frames");
  return frames_in(s, kLastFrame.name, clip_BCFHW.select(2, num_frames - 1));
}

}  // namespace

FirstFrame first_frame_of(const Config& c, const vae::CausalConfig& autoencoder) {
  if (c.extras.area_channels > 0) return FirstFrame::none;
  if (c.in_channels > c.out_channels) return FirstFrame::beside;
  return is_of_wan_2_2(c, autoencoder) || c.extras.speech.is_there() ? FirstFrame::held : FirstFrame::none;
}

double frame_rate_of(const Config& c, const vae::CausalConfig& autoencoder) {
  if (c.extras.talk.is_there()) return 25;
  const bool is_held = first_frame_of(c, autoencoder) == FirstFrame::held && is_of_wan_2_2(c, autoencoder);
  return is_held || c.extras.driving.is_read ? 24 : 16;
}

FirstFrames frames_of_column(GivenFrames given) {
  if (!given.has_column) return nullptr;
  return [](const pipeline::Scope& s, const at::Tensor& own) { return frames_in(s, kStartFrame.name, own); };
}

pipeline::Units beside_frame_units(const std::string& vae, const Encode& encode, GivenFrames given) {
  return {{"encode_first_frame", read_with(given), {"beside_latents"}, {vae}, [=](pipeline::Scope& s) {
             s.uses(vae);
             auto clip = as_clip(s.tensor("image"));
             auto known = at::zeros_like(clip);
             known.select(2, 0).copy_(first_frames(s, clip, given));
             if (given.has_last) known.select(2, clip.size(2) - 1).copy_(last_frames(s, clip));
             auto latents = encode(known).mean_BCHW;
             auto mask = at::zeros({latents.size(0), kMaskChannels, latents.size(2), latents.size(3), latents.size(4)}, latents.options());
             mask.select(2, 0).fill_(1);
             if (given.has_last) mask.select(2, latents.size(2) - 1).select(1, kMaskChannels - 1).fill_(1);
             s.write("beside_latents", at::cat({mask, latents}, 1));
           }}};
}

pipeline::Units image_state_units(const std::string& encoder, const std::function<at::Tensor(const at::Tensor& image)>& see,
                                  GivenFrames given) {
  return {{"encode_image_states", read_with(given), {"image_states"}, {encoder}, [=](pipeline::Scope& s) {
             s.uses(encoder);
             auto clip = as_clip(s.tensor("image"));
             auto states = see(first_frames(s, clip, given));
             s.write("image_states", given.has_last ? at::cat({states, see(last_frames(s, clip))}, 1) : states);
           }}};
}

at::Tensor behind_noise(const Config& c, const at::Tensor& beside, int64_t num_channels) {
  auto seen = beside.narrow(1, beside.size(1) - num_channels, num_channels);
  return c.extras.has_camera && num_channels == c.out_channels ? seen * beside.narrow(1, 0, 1) : seen;
}

}  // namespace burnish::models::wan
