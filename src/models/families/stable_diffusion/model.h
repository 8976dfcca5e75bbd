#pragma once
#include "diffusion/discrete_process.h"
#include "models/families/stable_diffusion/keys.h"
#include "models/families/stable_diffusion/unet.h"
#include "models/parts/assembled_model.h"
#include "models/parts/shared_components.h"

namespace burnish::models::stable_diffusion {

/// The components found among a run's files, by tensor names only. SD 1.5 has no second text encoder.
struct Sources {
  Source unet, text_encoder, text_encoder_2, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// Splits a prompt's token ids into chunks of `length` each [chunks, length]: between the start and the end token each holds the next
/// length - 2 tokens; what is left is padding, and a chunk without text holds an end token. Further tokens are left out.
std::vector<std::vector<int64_t>> chunks_of(const tokenizers::Tokenizer& tokenizer, std::string_view text, int64_t num_chunks,
                                            int64_t length);

/// Joins the states of a prompt's chunks [N, L, E] in one row [1, 2 + N (L-2), E]: the first start token, every chunk's inner tokens, the
/// last end token, as sd-scripts joins them.
at::Tensor join_chunks(const at::Tensor& states_NLE);

/// SDXL and SD 1.5: UNet, one or two CLIP text encoders, KL autoencoder.
class StableDiffusionModel : public AssembledModel {
 public:
  StableDiffusionModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;

 private:
  bool is_xl() const { return has_added_embedding(config_); }
  std::vector<std::string> text_encoders() const;
  void read_configs(const Sources& sources);
  void check_fit(const Sources& sources) const;
  diffusion::DiscreteConfig schedule(const Source& unet) const;
  void add_unet(const Source& source);
  void add_text_encoder(const std::string& name, const Source& source);
  ComponentNames text_names(const std::string& name, ComponentNames names) const;
  void fill_names();
  std::filesystem::path tokenizer_of(const std::string& text_encoder) const;
  int64_t chunk_length(const std::string& text_encoder) const;
  int64_t num_chunks() const;
  text::ClipTextModel::Out encode(const std::string& component, const std::string& prompt);
  int64_t layers_back() const;
  at::Tensor embedding(const std::string& component, const text::ClipTextModel::Out& out);
  void encode_prompt_1(pipeline::Scope& scope);
  void encode_prompt_2(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);

  Config config_;
  std::map<std::string, text::ClipConfig> clip_configs_;
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::stable_diffusion
