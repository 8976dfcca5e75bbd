#pragma once
#include "models/families/flux/transformer.h"
#include "models/model/extra_input.h"
#include "models/parts/find_components.h"
#include "models/parts/side_module.h"

// What FLUX.1 can read beside picture and prompt. Formulas are those of DiffSynth-Studio's pipelines/flux_image.py.
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

/// The sources of these components among some files; a source without an entry is not among them.
struct SideSources {
  Source controlnet, ip_adapter, value_controller, redux, image_encoder, lora_encoder, face_projector;
};
SideSources find_side_sources(const ModelFiles& files);
/// Finds them, and describes each in a few words.
Described side_modules_in(const ModelFiles& files);

/// The parts of FLUX.1 that units of its side modules may run.
struct ModelParts : models::ModelParts {
  std::string text_encoder;                                          ///< T5, by which `encode_text` encodes
  std::function<at::Tensor(const std::string& prompt)> encode_text;  ///< makes states of a text [1, T, E]
  int64_t text_length = 512;                                         ///< tokens of zeros that take the place of a text
  std::function<Transformer::Conditions(pipeline::Scope&)> conditions;
};

/// A side module of FLUX.1, held to its transformer.
class SideModule : public models::SideModule<Transformer::Inputs, ModelParts> {
 public:
  void add_names(Names& names) const override;

 protected:
  /// All must outlive this. Without a transformer, in a stage that only encodes, it may belong to any.
  SideModule(const ModelOptions& options, Components& components, const Config& dit, bool has_dit)
      : models::SideModule<Transformer::Inputs, ModelParts>(options, components), dit_(dit), has_dit_(has_dit) {}

  /// Tells whether it reads a column where the run names it.
  virtual bool can_read(std::string_view column) const = 0;
  /// Throws a config Error where the run names the first column of a pair and not the second.
  using Pair = std::pair<const char*, const char*>;
  void check_pairs(std::initializer_list<Pair> pairs) const;
  /// Throws a data Error where a number of a component is not the transformer's.
  void check_size(const Source& source, const char* what, int64_t found, int64_t expected) const;

  const Config& dit_;
  bool has_dit_;
};

/// Returns the texts of a column whose cell is a list of them in JSON, or one alone.
std::vector<std::string> texts_in(pipeline::Scope& scope, const std::string& column);
/// Makes as many channels of each block of side² pixels: [H, W] -> [side², H / side, W / side].
at::Tensor blocks_as_channels(const at::Tensor& x_HW, int64_t side);

}  // namespace burnish::models::flux
