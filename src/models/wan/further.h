#pragma once
#include "models/components.h"
#include "models/model.h"
#include "models/shared_units.h"
#include "models/wan/transformer.h"

namespace burnish::models::wan {

/// A module beside the transformer, with columns of its own, of the models that have one.
class Further {
 public:
  virtual ~Further() = default;
  struct Part {
    Recipe recipe;
    ComponentNames names;
  };
  /// Returns what is to be loaded for it; `dit` are the transformer's names.
  virtual std::vector<Part> parts(const ComponentNames& dit) const = 0;
  /// Adds the run's columns that it reads, and the values that they become.
  virtual void add_names(Names& names) const = 0;
  /// Returns the frames of latents in front of those of the clip.
  virtual int64_t num_before() const { return 0; }
  /// Adds units from its columns to the values that the transformer's unit, the last that denoises, reads.
  virtual void add_units(UnitGroups& groups, const std::string& vae, const Encode& encode) = 0;
  /// Puts these values where the transformer takes them.
  virtual void give(pipeline::Scope& scope, Transformer::Inputs& in) = 0;
};

}  // namespace burnish::models::wan
