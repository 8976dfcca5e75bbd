#pragma once
#include "adapters/adapter_file.h"
#include "dist/reduction.h"
#include "loras/merged.h"
#include "memory/again.h"
#include "optim/optimizer.h"
#include "train/objective_kind.h"
#include "train/sample_loss.h"

namespace burnish::train {

// A run as its options mean it. Words of options are compared in settings.cpp and nowhere else; from here on nothing changes them.

/// What part of the work this process does; all processes share one cache.
struct Share {
  int64_t num_processes = 1, process_index = 0;
  int64_t num_places = 1, place = 0;  ///< where so many processes do the same part together, each of some tokens of every sample
};

/// When what depends on sample and timestep alone is computed ahead of training.
enum class AheadChoice { off, if_smaller, on, with_first_blocks };

/// Which files, what precision, where.
struct ModelSettings {
  models::ModelNames names;
  models::ModelOptions options;
  ModelChoice storage;                              ///< fp8_models and what goes with it
  bool trained_in_fp8 = false;                      ///< weights that train whole are kept as FP8 codes
  bool first_blocks_apart = false;                  ///< the blocks before the first trained one are a part of their own
  std::vector<loras::LoraFile> presets = {};        ///< merged into the weights before anything is done with them
  std::vector<std::string> preset_components = {};  ///< that they are merged into; none: all that the files adapt
  std::string reference_column = {};                ///< of metadata, whose pictures the model is to read; "" for none (others: options)
};

/// What trains.
struct TrainedSettings {
  std::vector<std::string> whole;      ///< components, or parts of them
  std::vector<std::string> adapted;    ///< components that carry adapters
  std::string lora_checkpoint;         ///< "" starts anew
  std::optional<std::string> targets;  ///< of adapters; none takes the family's own
  adapters::AdapterOptions adapter;
  std::vector<std::string> given = {};              ///< options that were asked for in so many words, so also where they say their default
  std::string rank_groups = {}, alpha_groups = {};  ///< of layers that differ from it; lists as in base/numbers_by_name.h
  adapters::Layout layout = {};                     ///< of adapter files
  bool from_scratch = false;                        ///< the denoiser's weights are drawn
  double learning_rate = 0;
  std::vector<std::pair<std::string, double>> component_rates;  ///< see component_rates()
  uint64_t seed = 0;
};

/// Where samples come from, and what is kept of them.
struct DataSettings {
  bool from_pictures = true;                 ///< else from a cache that was made before
  data::DatasetOptions pictures;             ///< without what model and objective say
  data::DatasetOptions held_out;             ///< no subsets: none
  std::string list_folder;                   ///< of a cache that was made before
  bool is_import = false;                    ///< list_folder is named as another program's cache
  double caption_dropout = 0;                ///< of samples from list_folder, in place of what its list says; 0: as that says
  std::string cache_folder;                  ///< "" keeps everything in memory
  double cache_bytes = 0, weight_bytes = 0;  ///< budgets; 0: none
  Share share;
};

/// Which samples each batch has, and what is drawn for it.
struct CourseSettings {
  int64_t batch_size = 1;         ///< that a process runs at once
  int64_t global_batch_size = 0;  ///< of a batch, which all processes share out; 0: what they run at once
  int64_t num_repeats = 1, batches_per_step = 1;
  int64_t max_steps = 0, num_epochs = 1;  ///< max_steps 0 goes by epochs
  std::string replay = {};                ///< a file with recorded draws, or ""
  uint64_t seed = 0;
  double prior_loss_weight = 1;  ///< the factor on losses of the class set
  Share share = {};              ///< of the batches: processes that share tokens out count as one
  bool same_parts = false;       ///< all processes run as many parts of a batch, since they need each other for each
  int64_t visits_a_batch() const { return global_batch_size > 0 ? global_batch_size : batch_size * share.num_processes; }
};

/// What a sample's loss is.
struct ObjectiveSettings {
  const ObjectiveKind* kind = &sft();
  models::OptionValues own = default_objective_options();  ///< those of the kind among them
  diffusion::TimestepOptions timesteps = {};
  diffusion::LossOptions loss = {};
  SampleLoss sample_loss = {};
  double noise_offset = 0;
  bool draws_latents = false;                              ///< from the autoencoder's distribution, at every visit
  c10::ScalarType dtype = c10::kBFloat16;                  ///< of the model
  c10::Device device = c10::Device(c10::DeviceType::CPU);  ///< likewise
  uint64_t seed = 0;
};

/// What runs once, ahead and at every visit.
struct ScheduleSettings {
  bool everything_live = false;
  AheadChoice ahead = AheadChoice::if_smaller;
  /// Whether what can be computed ahead is, whatever it takes.
  bool always_ahead() const { return ahead == AheadChoice::on || ahead == AheadChoice::with_first_blocks; }
};

/// What of a step waits where while it is not needed, and what is computed twice.
struct MemorySettings {
  int64_t recompute_every = 0;       ///< of so many blocks one is recomputed; 0: none
  int64_t activation_bytes = 0;      ///< that forward may leave for backward, which decides `again`; 0: not said
  bool keeps_values = false;         ///< those of nn::remade, of blocks that `again` does not name
  memory::AgainByBlock again = {};   ///< by names as in "dit.transformer_blocks.3", for all blocks or none
  bool checkpoints_in_host = false;  ///< its inputs wait in host memory
  bool updates_in_backward = false;
  bool optimizer_in_host = false;
  int64_t paged_blocks = 0;    ///< of the denoiser, or kAllBlocks
  int64_t blocks_on_disk = 0;  ///< of those, that wait in their file
  bool uses_host() const { return checkpoints_in_host || optimizer_in_host || paged_blocks > 0; }
};

/// An optimizer step.
struct StepSettings {
  double learning_rate = 0, max_grad_norm = 0, ema_decay = 0;
  optim::ScheduleOptions schedule = {};  ///< its max_steps is the course's
  optim::OptimizerOptions optimizer = {};
  optim::GroupOptions groups = {};
  bool scales_loss = false;
  bool replays = false;  ///< forward and backward are recorded and replayed, where that can be
  MemorySettings memory = {};
  dist::ReductionOptions reduction = {};  ///< of gradients over processes
  int64_t zero_stage = 0;                 ///< what of the rest each process keeps a part of (train/ownership.h)
  int64_t row_size = 0;                   ///< of the processes that divide it among them (dist/mesh.h); 0: all
  /// Of the weights of the denoiser's blocks each process keeps a part (memory::Sharers).
  bool divides_blocks() const { return zero_stage >= 3; }
  /// Among how many of so many processes things are divided.
  int64_t num_sharers(int64_t num_processes) const { return zero_stage == 0 ? 1 : row_size == 0 ? num_processes : row_size; }
};

/// When a run saves, beside its end; 0 is never.
struct SaveSettings {
  int64_t steps = 0;  ///< -1: ten times in a run, at least 250 steps apart, where nothing else says when
  int64_t epochs = 0;
  double minutes = 0;
  int64_t keep_last = 0;   ///< of the saves by step; 0 keeps all
  bool keep_best = false;  ///< also the one with the lowest validation loss
};

struct PreviewSettings {
  std::string prompts;     ///< a file; "" draws none
  int64_t every = 0;       ///< steps; 0 draws before the first and after the last only
  int64_t num_steps = 20;  ///< of the sampler, where a prompt does not say
  uint64_t seed = 0;
  bool with_presets = false;  ///< with the presets that are merged while training
};

struct OutputSettings {
  std::filesystem::path folder;
  SaveSettings save;
  int64_t validation_steps = 0;  ///< 0 judges held-out samples before and after only
  PreviewSettings previews;
  bool tensorboard = false, csv = false;
  c10::ScalarType dtype = c10::kBFloat16;
  bool resume = false, overwrite = false;
  std::filesystem::path state() const { return folder / "state"; }
};

struct Settings {
  TrainOptions given;        ///< as they were written, for config.toml and the fingerprint
  Share together;            ///< which of the processes that train together this one is
  bool makes_cache = false;  ///< a cache and no training
  ModelSettings model;
  TrainedSettings trained;
  DataSettings data;
  ObjectiveSettings objective;
  ScheduleSettings schedule;
  CourseSettings course;
  StepSettings step;
  OutputSettings output;
};

/// Refuses what contradicts itself (check), and says what the rest means.
/// `share`: what of the run this process does, where several train together.
Settings settle(const TrainOptions& options, Share share = {});

/// Options that a saved state is only good for, in words.
std::string fingerprint(const TrainOptions& options, int64_t global_batch_size, const std::string& trained, bool has_adapters,
                        bool has_whole, int64_t num_samples);

}  // namespace burnish::train
