#pragma once
#include "models/families/flux/lora_encoder.h"
#include "models/families/flux/side_module.h"
#include "models/families/flux/side_networks.h"

namespace burnish::models::flux {

/// Holds what adds tokens to a prompt's: prompts for parts of a picture (EliGen), numbers (AttriCtrl), and LoRAs.
class TextUnits : public SideModule {
 public:
  /// Throws a config Error for columns that do not go together, a data Error for components of another transformer.
  TextUnits(const ModelOptions& options, Components& components, const SideSources& found, const Config& dit, bool has_dit);

  std::vector<NamedRecipe> components(const ComponentNames& dit) const override;
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 protected:
  bool can_read(std::string_view column) const override;

 private:
  pipeline::Unit value_unit();
  pipeline::Unit lora_unit();
  void give_entities(pipeline::Scope& scope, Transformer::Inputs& in) const;

  Source values_, loras_;
  ValueEncoder::Config value_config_;
  LoraEncoder::Config lora_config_;
};

}  // namespace burnish::models::flux
