#include "models/families/wan/driving.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/input_error.h"
#include "base/text.h"
#include "models/families/wan/frames.h"
#include "models/model/negative_prompt.h"

namespace burnish::models::wan {

namespace {

/// The noise at which the clip is run on: timestep 1 of 1000.
constexpr double kClipSigma = 0.001;

at::Tensor picture_in(pipeline::Scope& s) { return picture_of(s, kDrivingPicture).unsqueeze(0); }

/// The picture's latents as a frame in front of those of a clip.
at::Tensor behind_picture(pipeline::Scope& s, const Encode& encode, const at::Tensor& clip) {
  return at::cat({encode(as_clip(picture_in(s))).mean_BCHW, encode(clip).mean_BCHW}, 2);
}

pipeline::Unit latents_unit(const ModelParts& parts) {
  return {"encode_image", {"image", kDrivingPicture}, {"latents"}, {parts.vae}, [vae = parts.vae, encode = parts.encode](auto& s) {
            s.uses(vae);
            s.write("latents", behind_picture(s, encode, as_clip(s.tensor("image"))));
          }};
}

/// Returns what stands behind the noise: of the frame in front its latents, of the clip nothing is known. The driving clip tells its size,
/// since what is drawn is not there yet.
pipeline::Unit beside_unit(const ModelParts& parts) {
  return {"encode_picture",
          {kDrivingPicture, kDrivingClip},
          {"beside_latents"},
          {parts.vae},
          [vae = parts.vae, encode = parts.encode](auto& s) {
            s.uses(vae);
            auto latents = behind_picture(s, encode, at::zeros_like(as_clip(s.tensor(kDrivingClip))));
            auto shape = latents.sizes().vec();
            shape[1] = kMaskChannels;
            auto mask = at::zeros(shape, latents.options());
            mask.select(2, 0).fill_(1);
            s.write("beside_latents", at::cat({mask, latents}, 1));
          }};
}

pipeline::Units units_of_columns(const ModelParts& parts) {
  return {beside_unit(parts),
          {"encode_driving_clip",
           {kDrivingClip},
           {"clip_latents"},
           {parts.vae},
           [parts](auto& s) {
             s.uses(parts.vae);
             s.write("clip_latents", parts.latents_of(as_clip(s.tensor(kDrivingClip))));
           }},
          {"see_picture",
           {kDrivingPicture, kDrivingClip},
           {"image_states", "clip_states"},
           {parts.image_encoder},
           [parts](auto& s) {
             s.uses(parts.image_encoder);
             s.write("image_states", parts.see(picture_in(s)));
             s.write("clip_states", parts.see(as_clip(s.tensor(kDrivingClip)).select(2, 0)));
           }},
          {"encode_driving_text", {kDrivingText}, {"clip_text_embedding", "clip_text_counts"}, {parts.text_encoder}, [parts](auto& s) {
             parts.write_text(s, s.text(kDrivingText), "clip_text");
           }}};
}

}  // namespace

bool reads_driving(const ModelOptions& options) {
  auto names = [&](const Column& input) { return options.extra_inputs.contains(input.name); };
  const auto count = std::ranges::count_if(kDrivingInputs, names);
  if (count == 0) return false;
  if (count < std::ssize(kDrivingInputs))
    config_error("models",
                 "Wan-Animate-2 reads {}, {} and {} together, of which this run has some; name all three, in extra_inputs or when drawing",
                 kDrivingPicture, kDrivingClip, kDrivingText);
  if (options.references)
    config_error("models", "{} is the picture from which Wan-Animate-2 goes on, and input_image another; take one of them out",
                 kDrivingPicture);
  return true;
}

Config driven_config_of(int64_t latent_channels, int64_t caption_width, int64_t image_width) {
  return {.in_channels = 2 * latent_channels + kMaskChannels,
          .out_channels = latent_channels,
          .caption_width = caption_width,
          .image_width = image_width,
          .extras = {.driving = {.is_read = true}}};
}

DrivingUnits::DrivingUnits(const ModelOptions& options, Components& components, const Config& dit)
    : SideModule(options, components), dit_(dit) {
  if (!dit.extras.driving.is_read) return;
  if (dit.image_width == 0 || dit.in_channels != 2 * dit.out_channels + kMaskChannels)
    data_error("models",
               "Wan-Animate-2's transformer reads {} channels and states of pictures {} wide, and predicts {} channels; it was expected to "
               "read {}, and such states",
               dit.in_channels, dit.image_width, dit.out_channels, 2 * dit.out_channels + kMaskChannels);
  reads_ = reads_driving(options);
}

std::string DrivingUnits::variant(bool) const { return dit_.extras.driving.is_read ? "Wan2.2-Animate-2-14B" : ""; }

void DrivingUnits::add_names(Names& names) const {
  if (dit_.extras.driving.is_read) names.references.expected = kDrivingClip;
  if (!reads_) return;
  names.extra_inputs.insert(names.extra_inputs.end(), std::begin(kDrivingInputs), std::end(kDrivingInputs));
  names.values["beside_latents"] = {.shape = {-1, kMaskChannels + dit_.out_channels, -1, -1, -1}};
  names.values["clip_latents"] = {.shape = {-1, dit_.out_channels, -1, -1, -1}};
  for (const char* states : {"image_states", "clip_states"}) names.values[states] = {.shape = {-1, -1, dit_.image_width}};
  names.values["clip_text_embedding"] = {.shape = {-1, -1, dit_.caption_width}, .padded = true};
  names.values["clip_text_counts"] = {.shape = {-1, -1}, .padded = true};
  names.values[kIsNegative] = {.shape = {-1, 1}, .of_prompt = true};
}

pipeline::Unit DrivingUnits::modulation_unit(const std::string& part) {
  return {"modulate_clip", {"sigma"}, {"clip_modulation"}, {part}, [this, part](pipeline::Scope& s) {
            s.uses(part);
            auto sigma = s.tensor("sigma").to(options_.device, at::kFloat);
            s.write("clip_modulation", loaded<Transformer>(part).modulate(at::full_like(sigma, kClipSigma)));
          }};
}

void DrivingUnits::add_units(UnitGroups& groups, const ModelParts& parts) {
  if (!reads_) return;
  groups.encode_prompt.push_back(mark_prompt_unit());
  groups.encode_image = {latents_unit(parts)};
  auto units = units_of_columns(parts);
  groups.encode_references.insert(groups.encode_references.end(), units.begin(), units.end());
  groups.denoise.insert(groups.denoise.begin() + 1, modulation_unit(parts.dit + ".modulation"));
  auto& denoise = groups.denoise.back();
  denoise.reads.insert(denoise.reads.end(), {"beside_latents", "image_states", "clip_latents", "clip_states", "clip_text_embedding",
                                             "clip_text_counts", "clip_modulation", kIsNegative});
}

at::Tensor DrivingUnits::behind_noise(pipeline::Scope& scope, const at::Tensor& noisy) {
  return reads_ ? scope.tensor("beside_latents").to(noisy.options()) : at::Tensor();
}

void DrivingUnits::give(pipeline::Scope& scope, const std::string&, Transformer::Inputs& in) {
  if (!reads_) return;
  auto on_device = [&](const std::string& name) { return scope.tensor(name).to(options_.device); };
  const auto clip = on_device("clip_latents");
  const auto known = at::ones_like(clip.narrow(1, 0, kMaskChannels));
  in.image_BNW = on_device("image_states");
  in.clip = {.latents_BCFHW = at::cat({clip, known, clip}, 1),
             .text_BTE = on_device("clip_text_embedding").to(options_.dtype),
             .counts_BT = on_device("clip_text_counts"),
             .modulation_BM = scope.tensor("clip_modulation"),
             .image_BNW = on_device("clip_states")};
  in.is_negative_B = on_device(kIsNegative).select(1, 0);
}

}  // namespace burnish::models::wan
