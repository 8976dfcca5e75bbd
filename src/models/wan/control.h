#pragma once
#include "models/extra_input.h"
#include "models/names.h"
#include "models/options.h"
#include "models/shared_units.h"
#include "models/wan/frames.h"
#include "models/wan/transformer.h"

// What Wan's Fun models read beside a prompt: a clip that controls, a reference picture, and how the camera moves (VideoX-Fun; formulas are
// those of DiffSynth-Studio's pipelines/wan_video.py).
namespace burnish::models::wan {

inline constexpr const char *kControlVideo = "control_video", *kReferencePicture = "reference_image",
                            *kCameraDirection = "camera_control_direction", *kCameraSpeed = "camera_control_speed";
inline constexpr ExtraInput kControlInputs[] = {
    {.column = kControlVideo, .kind = ExtraInput::Kind::clip, .needs = "a Fun Control model"},
    {.column = kReferencePicture, .needs = "a Fun Control model with a reference picture", .fits_picture = true},
    {.column = kCameraDirection, .kind = ExtraInput::Kind::text, .needs = "a Fun Control-Camera model", .example = "Left"},
    {.column = kCameraSpeed, .kind = ExtraInput::Kind::numbers, .needs = "a Fun Control-Camera model", .example = "0.01"},
};

class Control {
 public:
  /// Throws a config Error for columns that do not go together. All must outlive this.
  Control(const ModelOptions& options, const Config& dit, const ControlConfig& config, bool has_dit);
  const ControlConfig& config() const { return config_; }

  /// Adds the columns of this run that can be read, and the values that they become.
  void add_names(Names& names) const;
  /// Makes the units from the run's columns to control_latents, reference_latents and camera_movement.
  pipeline::Units encode_units(const std::string& vae, const Encode& encode) const;
  bool gives_reference() const { return has(kReferencePicture); }
  /// Makes the unit from the reference picture to image_states, what `see` makes of it by the model `encoder`.
  pipeline::Unit seen_reference_unit(const std::string& encoder, const std::function<at::Tensor(const at::Tensor& image)>& see) const;
  /// Returns the values that the unit of the transformer reads of them.
  std::vector<std::string> reads() const;
  /// Returns the channels that stand behind the noisy latents: the control clip's, then what a first frame became (beside_latents,
  /// undefined without one), zeros where the run has none.
  at::Tensor behind_noise(pipeline::Scope& scope, const at::Tensor& noisy_BCFHW, const at::Tensor& first_BCFHW) const;
  /// Puts the other values where the transformer takes them.
  void give(pipeline::Scope& scope, Transformer::Inputs& in) const;

 private:
  bool has(const char* column) const { return options_.extra_inputs.contains(column) && can_read(column); }
  bool can_read(std::string_view column) const;
  /// Tells whether the transformer has channels for a clip that controls.
  bool can_control() const { return !config_.has_camera && dit_.in_channels > 2 * dit_.out_channels + kMaskChannels; }

  const ModelOptions& options_;
  const Config& dit_;
  ControlConfig config_;
  bool has_dit_;
};

}  // namespace burnish::models::wan
