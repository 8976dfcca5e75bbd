#pragma once
#include <fstream>
#include <memory>
#include <optional>

#include "adapters/adapter.h"
#include "checkpoint/state.h"
#include "data/dataset.h"
#include "models/family.h"
#include "optim/averaged.h"
#include "optim/optimizer.h"
#include "pipeline/visit.h"
#include "train/ahead.h"
#include "train/draws.h"
#include "train/options.h"
#include "train/prepared.h"
#include "train/split_plan.h"
#include "train/trained.h"

namespace burnish::train {

/// One training run, assembled by named passes. The passes run in this order; each leaves the run in a state the next relies on,
/// and what can be refused is refused before `prepare_data` loads the first weight.
class Run {
 public:
  explicit Run(const TrainOptions& options);

  void open_files();  ///< headers of all model files; the variant
  void
  check_model();  ///< by headers: every part with its tensors and tokenizer; LoRA targets and files; that a state to resume from is there
  void open_data();       ///< metadata, and a look at every picture
  void check_run();       ///< replay against the data, the state's settings; makes the run folder
  void prepare_data();    ///< frozen models over all samples, one model at a time
  void compute_ahead();   ///< what frozen units make of the draws of all steps, where that pays
  void load_models();     ///< what runs at every visit: weights, adapters, recompute
  void make_optimizer();  ///< optimizer, and the saved state when resuming
  /// Trains to the end, or to Ctrl-C (then the state is saved and an Error with Exit::interrupted is thrown).
  void train();
  /// After `prepare_data`: completes a cache that can be trained from alone.
  void finish_cache();
  /// After `open_data`, instead of training: what would be computed once and what at every step, measured on the first samples.
  SplitPlan plan_split();

 private:
  struct StepResult {
    double loss = 0, grad_norm = 0, learning_rate = 0;
    int64_t num_samples = 0;
    double data_seconds = 0;  ///< fetching what was prepared and drawing noise
  };
  void split_first_blocks();
  void check_ahead() const;
  void open_pictures();
  void open_cache();
  pipeline::Units units() const;
  pipeline::Values trajectories(const std::vector<Pick>& picks, const Prepared& prepared) const;
  void make_sampler();
  void check_inputs_in_cache() const;
  StepResult accumulate();
  void keep_budget();
  pipeline::Cut ahead_cut() const;
  bool always_ahead() const { return options_.precompute_timesteps == "on" || options_.precompute_timesteps == "blocks"; }
  int64_t num_held_out_visits() const;
  double ahead_limit() const;
  Ahead::Batch planned_batch(int64_t index);
  std::set<std::string> visit_inputs() const;
  Ahead::Batch batch_of(const std::vector<Pick>& picks, const Prepared& prepared, const data::Dataset* dataset, const Draw& draw,
                        const std::set<std::string>& inputs) const;
  Draw validation_draw(int64_t row, double share) const;
  StepResult step();
  std::string why_not_finite();
  /// Runs the live units.
  pipeline::Values visit(Ahead::Batch batch) const;
  void prefetch(int64_t index) const;
  std::vector<int64_t> latent_shape(const Pick& pick, const Prepared& prepared) const;
  at::Tensor weighted_loss(Ahead::Batch batch) const;
  Draw draw_batch(int64_t batch, std::vector<Pick>& picks, bool with_noise = true) const;
  double validation_loss();
  void log_step(const StepResult& result, double seconds);
  void save(bool final);
  void write(const std::filesystem::path& path, const Trained::File& file) const;
  std::string fingerprint() const;
  std::filesystem::path state_folder() const;

  TrainOptions options_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<data::Dataset> dataset_, validation_data_;
  std::unique_ptr<data::Sampler> sampler_;
  std::optional<Replay> replay_;
  std::unique_ptr<data::Cache> cache_;
  std::vector<SampleInfo> samples_;
  std::optional<Trained> trained_;
  pipeline::Cut cut_;
  std::string first_blocks_;         ///< the part of the denoiser that is to be computed ahead; "" for none
  bool computes_ahead_ = true;       ///< unless a budget leaves no room
  std::set<std::string> keep_live_;  ///< fixed units that run at every visit all the same
  std::optional<pipeline::Visit> visit_;
  std::unique_ptr<Prepared> prepared_, validation_;
  std::unique_ptr<data::Cache> ahead_cache_;  ///< in memory; none when the results are kept in cache_
  std::optional<Ahead> ahead_;
  std::shared_ptr<adapters::Dropout> dropout_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::Ema> ema_;  ///< none without ema_decay
  optim::ScheduleOptions schedule_;
  checkpoint::Progress progress_;
  int64_t saved_step_ = -1;
};

}  // namespace burnish::train
