#pragma once
#include "models/flux/config.h"
#include "models/flux/connector.h"
#include "models/model.h"
#include "models/shared_components.h"

namespace burnish::models::flux {

/// Where Step1X-Edit finds its reference picture, as DiffSynth-Studio calls it (pipelines/flux_image.py).
inline constexpr const char* kStep1xColumn = "step1x_reference_image";
/// What stands before the connector's tensors in the file that has the transformer as well.
inline const std::string kConnectorPrefix = "connector.";

/// What Qwen2.5-VL reads of a prompt and its picture.
struct Step1xText {
  std::vector<int64_t> ids = {};
  text::SeenPicture picture = {};
  int64_t num_dropped = 0;  ///< of the first tokens, whose states are dropped
};
/// What stands in quotes is read letter by letter (DiffSynth-Studio: models/step1x_text_encoder.py). At most `limit` tokens are kept behind
/// those that are dropped. `seen` [R, C, F] are the vision tower's.
Step1xText step1x_text(const tokenizers::ChatTokenizer& tokenizer, std::string_view prompt, const at::Tensor& seen_RCF, int64_t limit);

/// The connector among these files.
Source find_connector(const ModelFiles& files);

/// What stands in Step1X-Edit in the place of FLUX.1's text encoders: Qwen2.5-VL with its vision tower reads the prompt beside the
/// reference picture, and a connector makes texts of its states at every time.
class Step1x {
 public:
  /// A data Error for components of another model than the transformer. All must outlive this.
  Step1x(const ModelFiles& files, const ModelOptions& options, const Config& dit);

  bool is_there() const { return connector_.entry != nullptr; }
  /// Adds the text encoder, the vision tower and the connector; then the names of values, where FLUX.1's own are filled in.
  void add_components(const AddComponent& add) const;
  void add_names(Names& names) const;
  /// From the prompt and reference_images to prompt_states and prompt_mask. A config Error for a run that reads no reference pictures.
  pipeline::Units prompt_units(Components& components) const;
  /// From these and sigma to text_embedding and pooled_embedding.
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
