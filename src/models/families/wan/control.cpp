#include "models/families/wan/control.h"

#include <ATen/ops/zeros.h>

#include "base/input_error.h"
#include "base/text.h"
#include "models/families/wan/camera.h"
#include "models/families/wan/frames.h"

namespace burnish::models::wan {

Control::Control(const ModelOptions& options, Components& components, const Config& dit, bool has_dit)
    : SideModule(options, components), dit_(dit), has_dit_(has_dit) {
  const auto latents = dit.out_channels, rest = dit.in_channels - (can_control() ? 2 : 1) * latents;
  const bool is_scail = dit.extras.area_channels > 0;  // which says itself what it reads
  if (has_dit && !is_scail && rest != 0 && rest != latents && rest != latents + kMaskChannels)
    data_error(
        "models",
        "the transformer reads {} channels and predicts {}; no model of Wan that is known reads so many, which are the noise, a clip "
        "that controls, and a first frame's with or without a mask",
        dit.in_channels, latents);
  constexpr std::pair<const char*, const char*> kPairs[] = {{kCameraDirection, kCameraSpeed}, {kCameraSpeed, kCameraDirection}};
  for (const auto& [one, other] : kPairs) {
    if (has(one) && !has(other)) config_error("models", "extra_inputs names {}, which is read together with {}; name both", one, other);
  }
  if (reads(kCameraDirection) && !options_.references)
    config_error("models",
                 "{} says how the camera moves from a first frame; name input_image in extra_inputs too, when drawing --reference",
                 kCameraDirection);
}

bool Control::can_read(std::string_view column) const {
  if (!has_dit_) return true;
  if (column == kReferencePicture) return dit_.extras.has_reference;
  if (column == kControlVideo) return can_control();
  return dit_.extras.has_camera;
}

std::string Control::variant(bool has_experts) const {
  const std::string fun = has_experts ? "Wan2.2-Fun-A14B" : dit_.width() == 1536 ? "Wan2.1-Fun-1.3B" : "Wan2.1-Fun-14B";
  if (dit_.extras.has_camera) return fun + "-Control-Camera";
  return can_control() ? fun + "-Control" : "";
}

void Control::add_names(Names& names) const {
  if (has_dit_ && can_control()) names.references.expected = kControlVideo;
  if (has_dit_ && dit_.extras.has_camera) names.references.expected = kCameraDirection;
  for (const auto& input : kControlInputs) {
    if (reads(input.name)) names.extra_inputs.push_back(input);
  }
  if (reads(kControlVideo)) names.values["control_latents"] = {.shape = {-1, dit_.out_channels, -1, -1, -1}};
  if (reads(kReferencePicture) && dit_.image_width > 0) names.values["image_states"] = {.shape = {-1, -1, dit_.image_width}};
  if (reads(kReferencePicture)) names.values["reference_latents"] = {.shape = {-1, dit_.out_channels, 1, -1, -1}};
  if (reads(kCameraDirection)) names.values["camera_movement"] = {.shape = {-1, 3}};
}

pipeline::Units Control::encode_units(const std::string& vae, const Encode& encode) const {
  pipeline::Units units;
  if (reads(kControlVideo))
    units.push_back({"encode_control", {kControlVideo}, {"control_latents"}, {vae}, [=](pipeline::Scope& s) {
                       s.uses(vae);
                       s.write("control_latents", encode(as_clip(s.tensor(kControlVideo))).mean_BCHW);
                     }});
  if (reads(kReferencePicture))
    units.push_back({"encode_reference", {kReferencePicture}, {"reference_latents"}, {vae}, [=](pipeline::Scope& s) {
                       s.uses(vae);
                       s.write("reference_latents", encode(as_clip(picture_of(s, kReferencePicture).unsqueeze(0))).mean_BCHW);
                     }});
  if (reads(kCameraDirection))
    units.push_back({"read_camera", {kCameraDirection, kCameraSpeed}, {"camera_movement"}, {}, [](pipeline::Scope& s) {
                       s.write("camera_movement", camera_movement(s.text(kCameraDirection), s.tensor(kCameraSpeed)));
                     }});
  return units;
}

/// CLIP sees the reference picture in place of the first frame.
void Control::see_reference(UnitGroups& groups, const ModelParts& parts) {
  std::erase_if(groups.encode_references, [](const auto& unit) { return contains(unit.writes, "image_states"); });
  groups.encode_references.push_back(
      {"see_reference", {kReferencePicture}, {"image_states"}, {parts.image_encoder}, [parts](pipeline::Scope& s) {
         s.uses(parts.image_encoder);
         s.write("image_states", parts.see(picture_of(s, kReferencePicture).unsqueeze(0)));
       }});
  auto& reads = groups.denoise.back().reads;
  if (!contains(reads, "image_states")) reads.emplace_back("image_states");
}

void Control::add_units(UnitGroups& groups, const ModelParts& parts) {
  add_encoding(groups, encode_units(parts.vae, parts.encode));
  if (sees_reference()) see_reference(groups, parts);
}

at::Tensor Control::behind_noise(pipeline::Scope& scope, const at::Tensor& noisy) {
  if (!can_control()) return {};
  if (reads(kControlVideo)) return scope.tensor("control_latents").to(noisy.options());
  auto shape = noisy.sizes().vec();
  shape[1] = dit_.out_channels;
  return at::zeros(shape, noisy.options());
}

void Control::give(pipeline::Scope& scope, const std::string&, Transformer::Inputs& in) {
  const auto& noisy = in.noisy_BCFHW;
  if (sees_reference()) in.image_BNW = scope.tensor("image_states").to(options_.device);
  if (reads(kReferencePicture)) in.reference_BCHW = scope.tensor("reference_latents").to(noisy.options()).squeeze(2);
  if (reads(kCameraDirection))
    in.rays_BKFHW = camera_rays(scope.tensor("camera_movement").to(noisy.device()), (noisy.size(2) - 1) * kFramesPerLatent + 1,
                                noisy.size(3) * kSide, noisy.size(4) * kSide);
}

}  // namespace burnish::models::wan
