#pragma once
#include "base/column.h"
#include "models/families/flux/transformer.h"
#include "models/parts/find_components.h"
#include "models/parts/side_module.h"

// What FLUX.1 can read beside picture and prompt. Formulas are those of DiffSynth-Studio's pipelines/flux_image.py.
namespace burnish::models::flux {

/// Components that FLUX.1 can have beside its own; those that train have DiffSynth-Studio's names.
inline const std::string kControlNet = "controlnet", kIpAdapter = "ipadapter", kValueController = "value_controller",
                         kRedux = "flux_redux_image_embedder", kImageEncoder = "image_encoder", kLoraEncoder = "lora_encoder",
                         kFaceProjector = "image_proj_model";

/// Columns that FLUX.1 can be told to read, as DiffSynth-Studio's pipelines/flux_image.py calls them.
inline const Column kExtraInputs[] = {
    {.name = "flux_fill_image", .fit = Column::Fit::as_target, .words = {"FLUX.1 Fill"}},
    {.name = "flux_fill_mask", .fit = Column::Fit::as_target, .words = {"FLUX.1 Fill"}},
    {.name = "flex_inpaint_image", .fit = Column::Fit::as_target, .words = {"FLEX.2"}},
    {.name = "flex_inpaint_mask", .fit = Column::Fit::as_target, .words = {"FLEX.2"}},
    {.name = "flex_control_image", .fit = Column::Fit::as_target, .words = {"FLEX.2"}},
    {.name = "controlnet_image", .fit = Column::Fit::as_target, .words = {"a ControlNet"}},
    {.name = "controlnet_inpaint_mask", .fit = Column::Fit::as_target, .words = {"a ControlNet that inpaints"}},
    {.name = "controlnet_processor_id", .is = Column::Is::text, .words = {"a ControlNet for several kinds of control", "canny"}},
    {.name = "ipadapter_images", .words = {"an IP-Adapter and its image encoder"}},
    {.name = "flux_redux_image", .words = {"FLUX.1 Redux and its image encoder"}},
    {.name = "eligen_entity_prompts", .is = Column::Is::text, .words = {"prompts for parts of a picture", "[\"\"]"}},
    {.name = "eligen_entity_masks", .fit = Column::Fit::as_target, .words = {"prompts for parts of a picture"}},
    {.name = "value_controller_inputs", .is = Column::Is::numbers, .words = {"a controller of a picture's values (AttriCtrl)", "0.5"}},
    {.name = "infinityou_id_image", .is = Column::Is::tensor, .words = {"an encoder of faces (InfiniteYou)", "512"}},
    {.name = "infinityou_guidance", .is = Column::Is::numbers, .words = {"an encoder of faces (InfiniteYou)", "1"}},
    {.name = "lora_encoder_inputs", .is = Column::Is::text, .words = {"an encoder of LoRAs"}},
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
