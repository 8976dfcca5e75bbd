#pragma once
#include "models/families/wan/found.h"
#include "models/families/wan/side_module.h"
#include "models/families/wan/vace.h"

namespace burnish::models::wan {

/// Holds what VACE reads: a clip, a mask, and a picture, which is a frame in front of the clip's.
class VaceUnits : public SideModule {
 public:
  /// Throws a config Error for columns that do not go together. All but `found` must outlive this; a stage without a transformer encodes
  /// for any.
  VaceUnits(const ModelOptions& options, Components& components, const Found& found, const Config& dit);

  std::string variant(bool has_experts) const override;
  std::vector<NamedRecipe> components_beside(const ComponentNames& dit, size_t number) const override;
  void add_names(Names& names) const override;
  std::string_view picture_before() const override { return reads_ && has(kVaceReference) ? kVaceReference : ""; }
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 private:
  pipeline::Unit context_unit(const std::string& vae, const Encode& encode) const;

  std::array<Source, 2> sources_;
  const Config& dit_;
  VaceConfig config_;
  bool reads_ = false;  ///< whether the run has columns for it
};

}  // namespace burnish::models::wan
