#pragma once
#include "models/model/components.h"
#include "models/model/model.h"

namespace burnish::train {

/// Tells pictures that a student makes from those of the data, by tokens behind blocks of a denoiser: for each block a head of its own, two
/// convolutions with a group norm between them over the tokens as a picture lays them out (DMD2, Yin et al. 2024, arXiv 2405.14867; layers
/// and names of parameters are those of DiffSynth-Studio's FluxDMD2Discriminator). In fp32.
class Discriminator : public nn::Module {
 public:
  Discriminator(int64_t width, int64_t num_heads, const at::TensorOptions& options);
  ~Discriminator() override;

  /// Computes logits [B, heads], above 0 for what looks like data, of features [B, width, rows, columns], one for each head; clips have
  /// their frames among the rows.
  at::Tensor forward(const std::vector<at::Tensor>& features) const;
  /// Returns one with these weights that gives them no gradient.
  std::unique_ptr<Discriminator> frozen();
  /// Draws the parameters as torch draws those of new layers; `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Head;
  int64_t width_;
  std::vector<std::unique_ptr<Head>> heads_;
};

/// Returns how a discriminator of tokens of this width is made.
models::Recipe discriminator_recipe(const std::string& name, int64_t width, int64_t num_heads, uint64_t seed);

}  // namespace burnish::train
