#pragma once
#include "models/families/flux/side_module.h"
#include "models/families/flux/side_networks.h"
#include "models/parts/siglip.h"

namespace burnish::models::flux {

/// Holds what reads pictures as SigLIP sees them: an IP-Adapter beside the prompt, and Redux in its place.
class PictureUnits : public SideModule {
 public:
  /// Throws a data Error for components of another transformer.
  PictureUnits(const ModelOptions& options, Components& components, const SideSources& found, const Config& dit, bool has_dit);

  std::vector<NamedRecipe> components(const ComponentNames& dit) const override;
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 protected:
  bool can_read(std::string_view column) const override;

 private:
  SiglipVision::Output see(const std::vector<at::Tensor>& pictures) const;
  pipeline::Unit redux_unit(int64_t text_length) const;

  Source adapter_, redux_, encoder_;
  IpAdapter::Config adapter_config_;
  Redux::Config redux_config_;
  SiglipConfig encoder_config_;
};

}  // namespace burnish::models::flux
