#include "models/wan/control.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/wan/camera.h"
#include "models/wan/frames.h"

namespace burnish::models::wan {

Control::Control(const ModelOptions& options, const Config& dit, const ControlConfig& config, bool has_dit)
    : options_(options), dit_(dit), config_(config), has_dit_(has_dit) {
  const auto latents = dit.out_channels, rest = dit.in_channels - (can_control() ? 2 : 1) * latents;
  if (has_dit && rest != 0 && rest != latents && rest != latents + kMaskChannels)
    data_error(
        "models",
        "the transformer reads {} channels and predicts {}; no model of Wan that is known reads so many, which are the noise, a clip "
        "that controls, and a first frame's with or without a mask",
        dit.in_channels, latents);
  constexpr std::pair<const char*, const char*> kPairs[] = {{kCameraDirection, kCameraSpeed}, {kCameraSpeed, kCameraDirection}};
  for (const auto& [one, other] : kPairs) {
    if (options_.extra_inputs.contains(one) && !options_.extra_inputs.contains(other))
      config_error("models", "extra_inputs names {}, which is read together with {}; name both", one, other);
  }
  if (has(kCameraDirection) && !options_.references)
    config_error("models",
                 "{} says how the camera moves from a first frame; name input_image in extra_inputs too, when drawing --reference",
                 kCameraDirection);
}

bool Control::can_read(std::string_view column) const {
  if (!has_dit_) return true;
  if (column == kReferencePicture) return config_.has_reference;
  if (column == kControlVideo) return can_control();
  return config_.has_camera;
}

void Control::add_names(Names& names) const {
  for (const auto& input : kControlInputs) {
    if (has(std::string(input.column).c_str())) names.extra_inputs.push_back(input);
  }
  if (has(kControlVideo)) names.values["control_latents"] = {.shape = {-1, dit_.out_channels, -1, -1, -1}};
  if (has(kReferencePicture) && dit_.image_width > 0) names.values["image_states"] = {.shape = {-1, -1, dit_.image_width}};
  if (has(kReferencePicture)) names.values["reference_latents"] = {.shape = {-1, dit_.out_channels, 1, -1, -1}};
  if (has(kCameraDirection)) names.values["camera_movement"] = {.shape = {-1, 3}};
}

pipeline::Units Control::encode_units(const std::string& vae, const Encode& encode) const {
  pipeline::Units units;
  if (has(kControlVideo))
    units.push_back({"encode_control", {kControlVideo}, {"control_latents"}, {vae}, [=](pipeline::Scope& s) {
                       s.uses(vae);
                       s.write("control_latents", encode(as_clip(s.tensor(kControlVideo))).mean_BCHW);
                     }});
  if (has(kReferencePicture))
    units.push_back({"encode_reference", {kReferencePicture}, {"reference_latents"}, {vae}, [=](pipeline::Scope& s) {
                       s.uses(vae);
                       s.write("reference_latents", encode(as_clip(picture_of(s, kReferencePicture).unsqueeze(0))).mean_BCHW);
                     }});
  if (has(kCameraDirection))
    units.push_back({"read_camera", {kCameraDirection, kCameraSpeed}, {"camera_movement"}, {}, [](pipeline::Scope& s) {
                       s.write("camera_movement",
                               camera_movement(s.text(kCameraDirection), s.tensor(kCameraSpeed).flatten()[0].item<double>()));
                     }});
  return units;
}

pipeline::Unit Control::seen_reference_unit(const std::string& encoder, const std::function<at::Tensor(const at::Tensor&)>& see) const {
  return {"see_reference", {kReferencePicture}, {"image_states"}, {encoder}, [=](pipeline::Scope& s) {
            s.uses(encoder);
            s.write("image_states", see(picture_of(s, kReferencePicture).unsqueeze(0)));
          }};
}

std::vector<std::string> Control::reads() const {
  std::vector<std::string> values;
  if (has(kControlVideo)) values.emplace_back("control_latents");
  if (has(kReferencePicture)) values.emplace_back("reference_latents");
  if (has(kCameraDirection)) values.emplace_back("camera_movement");
  return values;
}

at::Tensor Control::behind_noise(pipeline::Scope& scope, const at::Tensor& noisy, const at::Tensor& first) const {
  auto zeros = [&](int64_t channels) {
    auto shape = noisy.sizes().vec();
    shape[1] = channels;
    return at::zeros(shape, noisy.options());
  };
  const auto latents = dit_.out_channels;
  auto channels = dit_.in_channels - latents;
  std::vector<at::Tensor> behind;
  if (can_control()) {
    behind.push_back(has(kControlVideo) ? scope.tensor("control_latents").to(noisy.options()) : zeros(latents));
    channels -= latents;
  }
  if (!first.defined()) {
    behind.push_back(zeros(channels));
  } else {
    // Its mask is left out where there is no room for it. Cameras see the first frame's latents alone then.
    auto given = first.to(noisy.options());
    auto seen = given.narrow(1, given.size(1) - channels, channels);
    behind.push_back(config_.has_camera && channels == latents ? seen * given.narrow(1, 0, 1) : seen);
  }
  return at::cat(behind, 1);
}

void Control::give(pipeline::Scope& scope, Transformer::Inputs& in) const {
  const auto& noisy = in.noisy_BCFHW;
  if (has(kReferencePicture)) in.reference_BCHW = scope.tensor("reference_latents").to(noisy.options()).squeeze(2);
  if (has(kCameraDirection))
    in.rays_BKFHW = camera_rays(scope.tensor("camera_movement").to(noisy.device()), (noisy.size(2) - 1) * kFramesPerLatent + 1,
                                noisy.size(3) * kSide, noisy.size(4) * kSide);
}

}  // namespace burnish::models::wan
