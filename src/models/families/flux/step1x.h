#pragma once
#include "models/families/flux/config.h"
#include "models/families/flux/connector.h"
#include "models/model/model.h"
#include "models/parts/shared_components.h"

namespace burnish::models::flux {

/// The column in which Step1X-Edit finds its reference picture, by DiffSynth-Studio's name (pipelines/flux_image.py).
inline constexpr const char* kStep1xColumn = "step1x_reference_image";
/// The prefix of the connector's tensors in the file that has the transformer as well.
inline const std::string kConnectorPrefix = "connector.";

/// The tokens that Qwen2.5-VL reads of a prompt and its picture.
struct Step1xText {
  std::vector<int64_t> ids = {};
  text::SeenPicture picture = {};
  int64_t num_dropped = 0;  ///< number of the first tokens, whose states are dropped
};
/// Makes the tokens of a prompt; a text in quotes is read letter by letter (DiffSynth-Studio: models/step1x_text_encoder.py). At most
/// `limit` tokens are kept behind the dropped ones. `seen` [R, C, F] are the vision tower's.
Step1xText step1x_text(const tokenizers::ChatTokenizer& tokenizer, std::string_view prompt, const at::Tensor& seen_RCF, int64_t limit);

/// Finds the connector among these files.
Source find_connector(const ModelFiles& files);

/// Takes the place of FLUX.1's text encoders in Step1X-Edit: Qwen2.5-VL with its vision tower reads the prompt beside the reference
/// picture, and a connector makes texts of its states at every time.
class Step1x {
 public:
  /// Throws a data Error for components of another model than the transformer. All must outlive this.
  Step1x(const ModelFiles& files, const ModelOptions& options, const Config& dit);

  bool is_there() const { return connector_.entry != nullptr; }
  /// Adds the text encoder, the vision tower and the connector; then the names of values, where FLUX.1's own are filled in.
  void add_components(const AddComponent& add) const;
  void add_names(Names& names) const;
  /// Makes the units from prompt and reference_images to prompt_states and prompt_mask. A config Error for a run without such pictures.
  pipeline::Units prompt_units(Components& components) const;
  /// Makes the units from prompt_states, prompt_mask and sigma to text_embedding and pooled_embedding.
  pipeline::Units connect_units(Components& components) const;

 private:
  int64_t text_length() const;
  void encode_prompt(Components& components, pipeline::Scope& scope) const;

  const ModelFiles& files_;
  const ModelOptions& options_;
  Source connector_, text_, vision_;
  Connector::Config connector_config_;
  text::QwenConfig text_config_;
  text::VisionConfig vision_config_;
};

}  // namespace burnish::models::flux
