#pragma once
#include "models/find_components.h"
#include "models/krea2/transformer.h"
#include "models/model.h"
#include "models/shared_components.h"

namespace burnish::models::krea2 {

/// Finds the three components of Krea 2 among a run's files; detection reads tensor names only.
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// The name of the published distilled model, by which a model is known that is only named.
inline constexpr const char* kTurbo = "krea2-turbo";

class Krea2Model : public Model {
 public:
  Krea2Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;

 private:
  void add_transformer(const Source& source);
  void fill_names(bool is_distilled);
  void check_layers() const;
  std::vector<int64_t> tokens_of(pipeline::Scope& scope) const;
  void encode_prompt(pipeline::Scope& scope);
  void fuse_text(pipeline::Scope& scope);
  void modulate(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);

  Config config_;
  std::vector<int64_t> read_layers_;  ///< layers of the text encoder whose states are read
  int64_t num_text_layers_ = 0;       ///< layers that the text encoder has
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::krea2
