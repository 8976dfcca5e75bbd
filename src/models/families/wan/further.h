#pragma once
#include <functional>
#include <string>
#include <vector>

#include "models/families/wan/transformer.h"
#include "models/model/components.h"
#include "models/model/model.h"
#include "models/parts/shared_units.h"

namespace burnish::models::wan {

/// What units of a further module may run of the model.
struct Around {
  std::string dit;  ///< the transformer of the expert whose units they are
  std::string vae;  ///< the autoencoder, by which `encode` encodes
  Encode encode;
  std::string image_encoder;  ///< CLIP, by which `see` makes states of pictures [B, 3, H, W] in [-1, 1]
  std::function<at::Tensor(const at::Tensor& image)> see;
  std::string text_encoder;  ///< umT5, which writes a text's states as NAME_embedding and their counts as NAME_counts
  std::function<void(pipeline::Scope& scope, const std::string& text, const std::string& name)> write_text;
};

/// What some models have beside a transformer that reads texts: a module, or columns of their own, or both. Each is made for every run, and
/// does nothing where neither the files nor the run's columns ask for it.
class Further {
 public:
  virtual ~Further() = default;
  struct Part {
    Recipe recipe;
    ComponentNames names;
  };
  /// Returns the name of the published model that it makes of the transformer; "" where it is not there, or says nothing of that.
  virtual std::string variant(bool /*has_experts*/) const { return ""; }
  /// Returns what is to be loaded for it once; `dit` are the transformer's names.
  virtual std::vector<Part> parts(const ComponentNames& /*dit*/) const { return {}; }
  /// Returns what is to be loaded for it beside each transformer, of which `dit` are the names and `number` counts the experts.
  virtual std::vector<Part> parts_beside(const ComponentNames& /*dit*/, size_t /*number*/) const { return {}; }
  /// Adds the run's columns that it reads, and the values that they become.
  virtual void add_names(Names& /*names*/) const {}
  /// Returns the column of a picture whose latents, the mean of what the autoencoder makes of it, are a frame in front of those of the
  /// clip;
  /// "" for none.
  virtual std::string_view picture_before() const { return ""; }
  /// Adds units from its columns to the values that the transformer's units read: the first that denoises reads the time, the last the
  /// latents.
  virtual void add_units(UnitGroups& groups, const Around& around) = 0;
  /// Returns what is added to the modulation of all blocks, [B, 6 D] in fp32; undefined where nothing is.
  virtual at::Tensor modulation(pipeline::Scope& /*scope*/) { return {}; }
  /// Returns the channels that stand right behind the noisy latents; undefined where none do.
  virtual at::Tensor behind_noise(pipeline::Scope& /*scope*/, const at::Tensor& /*noisy_BCFHW*/) { return {}; }
  /// Puts its values where this transformer takes them.
  virtual void give(pipeline::Scope& /*scope*/, const std::string& /*dit*/, Transformer::Inputs& /*in*/) {}
};

/// Makes the unit from a prompt to kIsNegative, for modules that add otherwise where guidance leads away.
pipeline::Unit mark_prompt_unit();

}  // namespace burnish::models::wan
