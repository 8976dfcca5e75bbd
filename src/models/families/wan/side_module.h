#pragma once
#include "models/families/wan/transformer.h"
#include "models/parts/side_module.h"

namespace burnish::models::wan {

/// The parts of Wan that units of its side modules may run.
struct ModelParts : models::ModelParts {
  std::string image_encoder;  ///< CLIP, by which `see` makes states of pictures [B, 3, H, W] in [-1, 1]
  std::function<at::Tensor(const at::Tensor& image)> see;
  std::string text_encoder;  ///< umT5, which writes a text's states as NAME_embedding and their counts as NAME_counts
  std::function<void(pipeline::Scope& scope, const std::string& text, const std::string& name)> write_text;
  /// Runs the transformer's body as `denoise` does, with a sound or with silence in its place, for units in its place.
  std::function<at::Tensor(pipeline::Scope& scope, bool is_silent)> predict;
};

/// A side module of Wan, which has up to two transformers and draws clips.
class SideModule : public models::SideModule<Transformer::Inputs, ModelParts> {
 public:
  /// Returns the name of the published model that it makes of the transformer; "" where it is not there, or says nothing of that.
  virtual std::string variant(bool /*has_experts*/) const { return ""; }
  /// Returns what is to be loaded for it beside each transformer, of which `dit` are the names and `number` counts the experts.
  virtual std::vector<NamedRecipe> components_beside(const ComponentNames& /*dit*/, size_t /*number*/) const { return {}; }
  /// Returns the column of a picture whose latents, the mean of what the autoencoder makes of it, are a frame in front of those of the
  /// clip; "" for none.
  virtual std::string_view picture_before() const { return ""; }
  /// Returns what is added to the modulation of all blocks, [B, 6 D] in fp32; undefined where nothing is.
  virtual at::Tensor modulation(pipeline::Scope& /*scope*/) { return {}; }

 protected:
  using models::SideModule<Transformer::Inputs, ModelParts>::SideModule;
};

/// Makes the unit from a prompt to kIsNegative, for modules that add otherwise where guidance leads away.
pipeline::Unit mark_prompt_unit();

}  // namespace burnish::models::wan
