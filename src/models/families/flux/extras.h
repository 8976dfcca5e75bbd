#pragma once
#include "models/families/flux/controlnet.h"
#include "models/families/flux/extra_modules.h"
#include "models/families/flux/lora_encoder.h"
#include "models/model/extra_input.h"
#include "models/model/model.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"
#include "models/parts/siglip.h"

namespace burnish::models::flux {

/// Components that FLUX.1 can have beside its own; those that train have DiffSynth-Studio's names.
inline const std::string kControlNet = "controlnet", kIpAdapter = "ipadapter", kValueController = "value_controller",
                         kRedux = "flux_redux_image_embedder", kImageEncoder = "image_encoder", kLoraEncoder = "lora_encoder",
                         kFaceProjector = "image_proj_model";

/// Columns that FLUX.1 can be told to read, as DiffSynth-Studio's pipelines/flux_image.py calls them.
inline constexpr ExtraInput kExtraInputs[] = {
    {.column = "flux_fill_image", .needs = "FLUX.1 Fill", .fits_picture = true},
    {.column = "flux_fill_mask", .needs = "FLUX.1 Fill", .fits_picture = true},
    {.column = "flex_inpaint_image", .needs = "FLEX.2", .fits_picture = true},
    {.column = "flex_inpaint_mask", .needs = "FLEX.2", .fits_picture = true},
    {.column = "flex_control_image", .needs = "FLEX.2", .fits_picture = true},
    {.column = "controlnet_image", .needs = "a ControlNet", .fits_picture = true},
    {.column = "controlnet_inpaint_mask", .needs = "a ControlNet that inpaints", .fits_picture = true},
    {.column = "controlnet_processor_id",
     .kind = ExtraInput::Kind::text,
     .needs = "a ControlNet for several kinds of control",
     .example = "canny"},
    {.column = "ipadapter_images", .needs = "an IP-Adapter and its image encoder"},
    {.column = "flux_redux_image", .needs = "FLUX.1 Redux and its image encoder"},
    {.column = "eligen_entity_prompts", .kind = ExtraInput::Kind::text, .needs = "prompts for parts of a picture", .example = "[\"\"]"},
    {.column = "eligen_entity_masks", .needs = "prompts for parts of a picture", .fits_picture = true},
    {.column = "value_controller_inputs",
     .kind = ExtraInput::Kind::numbers,
     .needs = "a controller of a picture's values (AttriCtrl)",
     .example = "0.5"},
    {.column = "infinityou_id_image", .kind = ExtraInput::Kind::file, .needs = "an encoder of faces (InfiniteYou)", .example = "512"},
    {.column = "infinityou_guidance", .kind = ExtraInput::Kind::numbers, .needs = "an encoder of faces (InfiniteYou)", .example = "1"},
    {.column = "lora_encoder_inputs", .kind = ExtraInput::Kind::text, .needs = "an encoder of LoRAs"},
};

/// Finds these components among some files, and describes each in a few words.
Described extras_in(const ModelFiles& files);

/// Gives the transformer what it reads beside picture and prompt: the components for it that are among a run's files, how they are made and
/// called, and the units between the columns of extra_inputs and the transformer. Formulas are those of DiffSynth-Studio's
/// pipelines/flux_image.py.
class Extras {
 public:
  /// Throws a config Error for columns that do not go together, a data Error for components of another model than the transformer, where
  /// the files hold one. All must outlive this.
  Extras(const ModelFiles& files, const ModelOptions& options, const Config& dit, bool has_dit);

  /// Adds those components that the files hold. `dit` are the names of the transformer.
  void add_components(const AddComponent& add, const ComponentNames& dit) const;
  /// Adds the columns of this run that can be read.
  void add_names(Names& names) const;

  /// The number of pixels behind a latent along a side, and how pictures become latents.
  struct Encoding {
    int64_t downsampling = 8;
    std::function<Moments(const at::Tensor& image)> encode;
    std::function<at::Tensor(const std::string& prompt)> encode_text;  ///< encodes a text by T5: [1, T, E]
    std::string text_encoder;
    int64_t text_length = 512;  ///< tokens of zeros that take the place of a text
  };
  /// Makes the units from columns to what the transformer or its ControlNet reads.
  pipeline::Units encode_units(Components& components, const Encoding& encoding) const;
  /// Makes the units that stand in place of the text encoders, where a picture takes the prompt's place (Redux).
  pipeline::Units prompt_units(Components& components, const Encoding& encoding) const;
  /// Gives the conditions of a step to `control_units`, which run the ControlNet on noisy latents at every step, before the transformer.
  using ConditionsOf = std::function<Transformer::Conditions(pipeline::Scope&)>;
  pipeline::Units control_units(Components& components, const ConditionsOf& conditions) const;

  /// The further values that the unit of the transformer reads, and the further components that it runs.
  std::vector<std::string> reads() const;
  std::vector<std::string> models() const;
  /// Puts these values where the transformer takes them. `in` has latents of the target and the text.
  void give(Components& components, pipeline::Scope& scope, Transformer::Inputs& in) const;
  /// Returns the channels that stand behind those of noisy latents [B, C, h, w]: read from the scope, or where the run names no columns,
  /// channels of a picture of which all is to be drawn. Undefined for a transformer that reads none.
  at::Tensor channels(pipeline::Scope& scope, const at::Tensor& noisy_BCHW) const;
  /// Tells whether the run names any column.
  bool any() const { return !options_.extra_inputs.empty(); }

 private:
  /// Parts of `encode_units`: further channels of the latents, pictures that control, faces.
  pipeline::Units channel_units(const Encoding& encoding) const;
  pipeline::Units control_picture_units(const Encoding& encoding) const;
  pipeline::Units face_units(Components& components) const;
  enum class Editing { none, fill, flex };
  bool has(const char* column) const { return options_.extra_inputs.contains(column); }
  bool fills() const { return has("flux_fill_image"); }
  bool flexes() const { return has("flex_inpaint_image") || has("flex_inpaint_mask") || has("flex_control_image"); }
  bool can_read(const ExtraInput& input) const;
  void check_together() const;
  void check_control() const;
  void check_sizes() const;

  const ModelOptions& options_;
  const Config& dit_;
  bool has_dit_;  ///< else it may belong to any transformer, in a stage that only encodes
  /// The sources of these components; a source without an entry is not among the files.
  struct Found {
    Source controlnet, ip_adapter, value_controller, redux, image_encoder, lora_encoder, face_projector;
  } found_;
  ControlConfig control_config_;
  IpAdapter::Config ip_config_;
  SiglipConfig siglip_config_;
  LoraEncoder::Config lora_config_;
  FaceProjector::Config face_config_;
  Editing editing_ = Editing::none;
};

}  // namespace burnish::models::flux
