#include "train/options/asked.h"

#include <algorithm>

#include "base/text.h"
#include "models/registry.h"
#include "train/options/meaning.h"
#include "train/options/objective_options.h"

namespace burnish::train {

bool has_adapters(const TrainOptions& o) {
  bool is_new = o.trained.whole.empty() && !o.embedding.has_words();
  return is_new || !o.trained.adapted.empty() || !o.trained.lora_checkpoint.empty();
}

bool names_others(const TrainOptions& o) {
  auto is_beside = [](const std::string& name) { return !models::is_denoiser(pipeline::component_of(name)); };
  return o.embedding.has_words() || std::ranges::any_of(split_list(o.trained.whole), is_beside) ||
         std::ranges::any_of(split_list(o.trained.adapted), is_beside);
}

bool may_train_others(const TrainOptions& o) { return names_others(o) || !o.trained.lora_checkpoint.empty(); }

bool draws_times(const TrainOptions& o) { return objective_of(o).draws_times; }

bool has_references(const TrainOptions& o) { return !reference_column(o).empty(); }
bool has_previews(const TrainOptions& o) { return !o.output.previews.prompts.empty(); }

bool reads_samples(const TrainOptions& o) { return encodes(o) || !o.data.validation_metadata_path.empty(); }
bool reads_captions(const TrainOptions& o) { return reads_samples(o) || has_previews(o) || may_train_others(o); }
bool runs_autoencoder(const TrainOptions& o) { return reads_captions(o); }

}  // namespace burnish::train
