#include "models/families/ltx2/given_frames.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_upsample_bicubic2d_aa.h>

#include <algorithm>

#include "base/input_error.h"

namespace burnish::models::ltx2 {

namespace {

const std::string kLastLatents = "last_latents", kReferenceLatents = "in_context_latents";
/// A reference clip is seen so many times smaller unless it is said.
constexpr int64_t kUsualScale = 2;

Grid grid_of(const at::Tensor& latents) { return {latents.dim() == 5 ? latents.size(2) : 1, latents.size(-2), latents.size(-1)}; }

/// Reads how many times smaller a reference is seen; a plan has no numbers.
int64_t scale_in(const at::Tensor& cell) {
  if (cell.numel() == 0 || cell.is_meta()) return kUsualScale;
  const auto number = cell.flatten()[0].item<double>();
  const auto scale = static_cast<int64_t>(number);
  if (static_cast<double>(scale) != number || scale < 1)
    data_error("models", "the {} is {}, and a whole number of at least 1 was expected", kReferenceScale.name, number);
  return scale;
}

/// The pixels of a side that is so many times smaller, in whole latents.
int64_t smaller(int64_t side, int64_t scale) {
  const auto of_latent = scale * kPixelsALatent;
  return (side + of_latent - 1) / of_latent * kPixelsALatent;
}

/// Tells how many times smaller latents are than a clip's: their sides are rounded up.
int64_t scale_between(const Grid& target, const Grid& reference) {
  auto of_side = [](int64_t whole, int64_t part) { return (whole + part - 1) / part; };
  return std::max(of_side(target.rows, reference.rows), of_side(target.columns, reference.columns));
}

/// Scales clips [B, 3, F, H, W] down, as DiffSynth-Studio's pictures are.
at::Tensor scaled(const at::Tensor& clip, int64_t height, int64_t width) {
  if (height == clip.size(3) && width == clip.size(4)) return clip;
  const auto frames = clip.transpose(1, 2).flatten(0, 1).contiguous();
  const auto small = at::_upsample_bicubic2d_aa(frames, {height, width}, /*align_corners=*/false).clamp(-1, 1);
  return small.unflatten(0, {clip.size(0), clip.size(2)}).transpose(1, 2).contiguous();
}

}  // namespace

Option given_frames_option() {
  return {
      .name = "given_frames",
      .help =
          "first frames of a clip that LTX-2 is given, with extra_inputs input_image or when drawing --reference, which is a clip then: "
          "1 and a multiple of 8",
      .otherwise = int64_t{1},
      .elsewhere = "it is of LTX-2, leave it out",
      .least = 1,
      .about = Option::About::references};
}

GivenFrames::GivenFrames(const ModelOptions& options, int64_t channels)
    : has_first_(options.references),
      has_last_(options.extra_inputs.contains(kLastFrame.name)),
      has_reference_(options.extra_inputs.contains(kReferenceClip.name)),
      has_scale_(options.extra_inputs.contains(kReferenceScale.name)),
      num_first_(options.get<int64_t>("given_frames")),
      channels_(channels) {
  if (num_first_ % kFramesALatent != 1)
    config_error("models", "given_frames is {}, and clips of this model begin with 1 frame and a multiple of {}; the nearest are {} and {}",
                 num_first_, kFramesALatent, (num_first_ - 1) / kFramesALatent * kFramesALatent + 1,
                 (num_first_ - 1) / kFramesALatent * kFramesALatent + 1 + kFramesALatent);
  if (has_last_ && !has_first_)
    config_error("models", "{} is a clip's last frame and goes with its first; name {} in extra_inputs too, when drawing --reference",
                 kLastFrame.name, kFirstFrameColumn);
  if (has_scale_ && !has_reference_)
    config_error("models", "{} says how much smaller than the target a clip beside it is seen, and none is; name {} too",
                 kReferenceScale.name, kReferenceClip.name);
}

void GivenFrames::add_names(Names& names) const {
  const auto frame = std::vector<int64_t>{-1, channels_, 1, -1, -1};
  if (has_first_) {
    names.references.column = kFirstFrameColumn;
    names.values[kFirst] = {.shape = {-1, channels_, (num_first_ - 1) / kFramesALatent + 1, -1, -1}};
    names.values[kLossMap] = {};
  }
  if (has_last_) {
    names.extra_inputs.push_back(kLastFrame);
    names.values[kLastLatents] = {.shape = frame};
  }
  if (has_scale_) names.extra_inputs.push_back(kReferenceScale);
  if (!has_reference_) return;
  names.extra_inputs.push_back(kReferenceClip);
  names.values[kReferenceLatents] = {.shape = {-1, channels_, -1, -1, -1}, .diffsynth = {.name = "in_context_video_latents"}};
}

pipeline::Unit GivenFrames::last_frame_unit(const std::string& vae, const Encode& encode) const {
  return {"encode_last_frame", {kTarget, kLastFrame.name}, {kLastLatents}, {vae}, [=](pipeline::Scope& s) {
            s.uses(vae);
            const auto& image = s.tensor(kTarget);
            const auto num_frames = image.dim() == 5 ? image.size(2) : 1;
            check_has_more(num_frames);
            const auto own = as_clip(image.narrow(2, num_frames - 1, 1)).select(2, 0);
            s.write(kLastLatents, encode(frames_in(s, kLastFrame.name, own).unsqueeze(2)).mean_BCHW);
          }};
}

pipeline::Unit GivenFrames::reference_unit(const std::string& vae, const Encode& encode) const {
  std::vector<std::string> reads{kReferenceClip.name};
  if (has_scale_) reads.push_back(kReferenceScale.name);
  return {"encode_reference_clip", reads, {kReferenceLatents}, {vae}, [=, has_scale = has_scale_](pipeline::Scope& s) {
            s.uses(vae);
            const auto clip = as_clip(s.tensor(kReferenceClip.name));
            const auto scale = has_scale ? scale_in(s.tensor(kReferenceScale.name)) : kUsualScale;
            const auto height = smaller(clip.size(3), scale), width = smaller(clip.size(4), scale);
            auto latents = encode(scaled(clip, height, width)).mean_BCHW;
            const Grid target{1, clip.size(3) / kPixelsALatent, clip.size(4) / kPixelsALatent};
            if (scale_between(target, grid_of(latents)) != scale)
              config_error("models",
                           "a reference clip {} times smaller than {} by {} pixels is less than one latent of {}; give a smaller {}", scale,
                           clip.size(4), clip.size(3), kPixelsALatent, kReferenceScale.name);
            s.write(kReferenceLatents, latents);
          }};
}

void GivenFrames::add_units(UnitGroups& groups, const std::string& vae, const Encode& encode) const {
  groups.encode_references = {};  // which reads the clip itself
  if (has_first_) {
    groups.encode_references = num_first_ > 1 ? held_beginning_units(vae, encode, num_first_) : held_frame_units(vae, encode);
    groups.weigh = held_frame_weights((num_first_ - 1) / kFramesALatent + 1);
  }
  if (has_last_) groups.encode_references.push_back(last_frame_unit(vae, encode));
  if (has_reference_) groups.encode_references.push_back(reference_unit(vae, encode));
}

std::vector<std::string> GivenFrames::reads() const {
  std::vector<std::string> reads;
  if (has_first_) reads.push_back(kFirst);
  if (has_last_) reads.push_back(kLastLatents);
  if (has_reference_) reads.push_back(kReferenceLatents);
  return reads;
}

void GivenFrames::give(const pipeline::Scope& scope, Transformer::Inputs& in) const {
  auto here = [&](const std::string& name) { return scope.tensor(name).to(in.noisy_BCFHW.device()); };
  const auto target = grid_of(in.noisy_BCFHW);
  if (has_first_) {
    const auto first = here(kFirst);
    in.noisy_BCFHW = with_first(in.noisy_BCFHW, first);
    in.num_given = first.size(2);
  }
  if (has_last_) {
    const auto last = here(kLastLatents);
    in.beside.push_back({last, places_of_keyframe(grid_of(last), in.rate_B, (target.num_frames - 1) * kFramesALatent)});
  }
  if (!has_reference_) return;
  const auto latents = here(kReferenceLatents);
  const auto grid = grid_of(latents);
  in.beside.push_back({latents, places_of_reference(grid, in.rate_B, scale_between(target, grid))});
}

}  // namespace burnish::models::ltx2
