#pragma once
#include <functional>
#include <optional>

#include "adapters/adapter_file.h"
#include "adapters/attach.h"
#include "adapters/rank_mask.h"
#include "loras/embedding_file.h"
#include "loras/merged.h"
#include "train/subject/model_choice.h"

namespace burnish::train {

/// Settings that say which model files are opened, in what precision and on what device.
struct ModelSettings {
  models::ModelNames names;
  models::ModelOptions options;
  ModelChoice storage;                              ///< fp8_models and what goes with it
  bool trained_in_fp8 = false;                      ///< weights that train whole are kept as FP8 codes
  bool first_blocks_apart = false;                  ///< the blocks before the first trained one are a part of their own
  std::vector<loras::LoraFile> presets = {};        ///< LoRAs that are merged into the weights before anything is done with them
  std::vector<std::string> preset_components = {};  ///< the components that presets are merged into; none: all that the files adapt
};

/// Settings of a word whose vectors train.
struct WordSettings {
  std::string text;                        ///< the word in captions
  int64_t num_tokens = 1;                  ///< tokens that it is read as
  std::string init = "*";                  ///< words whose tokens' vectors it begins with, in turn
  std::string file = {};                   ///< a file whose vectors it begins with; "" for none
  std::vector<std::string> encoders = {};  ///< the text encoders whose vectors train; none: all that have a token table
  double learning_rate = 0;                ///< 0: that of everything else
  bool is_output = false;                  ///< whether they stand in the place of what the encoders make of the word (Word::states_NE)
};

/// Settings of all words whose vectors train, and of their files.
struct WordsSettings {
  std::vector<WordSettings> list = {};  ///< none: none trains
  bool keeps_norm = false;              ///< whether each update is followed by bringing vectors to the norm of the table's
  loras::EmbeddingLayout layout = {};
  bool is_bundled = false;  ///< whether they are written into the adapters' file
};

/// A model that a run has beside the denoiser for what its objective makes of it; no file of trained weights has anything of it.
struct Companion {
  enum class Trains { nothing, adapter, whole };
  std::string name;
  Trains trains = Trains::nothing;
  double learning_rate = 0;  ///< 0: the run's
  std::string of = {};       ///< the component that it is a copy of; "": the denoiser
  bool shares_weights = false;
  /// Makes what is no copy; empty: it is one.
  std::function<models::Recipe(const models::Model& model, uint64_t seed)> recipe = {};
};

/// Settings that say what trains.
struct TrainedSettings {
  std::vector<std::string> whole;         ///< components, or parts of them, that train whole
  std::vector<std::string> adapted;       ///< components that carry adapters
  std::vector<std::string> experts = {};  ///< names of the experts that train; none: all whose files are there
  std::string lora_checkpoint;            ///< a file, or a comma list of the files of several experts; "" starts anew
  std::optional<std::string> targets;     ///< targets of adapters; none takes the family's own
  adapters::AdapterOptions adapter;
  adapters::RankRule rank_rule = {};                ///< how many ranks of LoRAs take part in a step, by a sample's time
  std::vector<std::string> given = {};              ///< options that were asked for in so many words, also where they say their default
  std::string rank_groups = {}, alpha_groups = {};  ///< ranks and alphas of layers that differ from it (base/numbers_by_name.h)
  adapters::Layout layout = {};                     ///< layout of adapter files
  bool from_scratch = false;                        ///< whether the denoiser's weights are drawn
  double learning_rate = 0;
  std::vector<std::pair<std::string, double>> component_rates;  ///< see component_rates()
  WordsSettings words = {};
  uint64_t seed = 0;
  std::vector<Companion> companions = {};
};

}  // namespace burnish::train
