#pragma once
#include "models/families/wan/found.h"
#include "models/families/wan/hearing.h"
#include "models/families/wan/side_module.h"

namespace burnish::models::wan {

/// The option that says how far drawing is led away from silence, as --cfg_scale leads it away from the negative prompt.
Option sound_scale_option();

/// Holds what InfiniteTalk reads beside picture and prompt: a sound. The first frame is the picture's, in training as in drawing.
class TalkUnits : public SideModule {
 public:
  /// Throws a data Error for an encoder of another transformer, and a config Error for the option of another. `files` are the run's. All
  /// but `found` must outlive this.
  TalkUnits(const ModelOptions& options, Components& components, const ModelFiles& files, const Found& found, const Config& dit);

  std::string variant(bool has_experts) const override;
  std::vector<NamedRecipe> components(const ComponentNames& dit) const override;
  void add_names(Names& names) const override;
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 private:
  bool is_there() const { return dit_.extras.talk.is_there(); }
  pipeline::Unit sound_unit();

  const Config& dit_;
  Hearing hearing_;
};

/// Guides a prediction by that of a negative prompt, behind the channels of which stands what the sound adds to it: how far it leads from
/// silence, times as much as it guides beyond 1 (MeiGen-AI/InfiniteTalk: wan/multitalk.py).
at::Tensor guided_by_sound(const at::Tensor& prediction, const at::Tensor& away, double scale, double rescale);

}  // namespace burnish::models::wan
