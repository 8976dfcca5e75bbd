#pragma once
#include "data/cache.h"
#include "models/family.h"
#include "pipeline/visit.h"

namespace burnish::train {

/// What frozen units make of a batch's draws, computed for every batch of a run before its first step. Noise and timesteps have keys, so
/// all draws are known beforehand; the models that only these units run are then not in memory during training. Every batch is
/// computed as the training step would compute it, so that losses are the same bit for bit.
///
/// A result is found again by its key: the SHA-256 of the bytes that its units read.
class Ahead {
 public:
  /// A batch: what is known of each sample, and the draws.
  struct Batch {
    std::vector<pipeline::Values> samples;
    pipeline::Values draws;
  };

  /// `ahead` is cut_ahead of `cut.live`. Results are kept in `cache`.
  Ahead(models::Model& model, const pipeline::Cut& cut, const pipeline::Cut& ahead, const std::set<std::string>& draws, data::Cache& cache,
        c10::Device device);

  /// Models that are needed for `compute` and not afterwards, and their bytes.
  const std::vector<std::string>& models() const { return models_; }
  int64_t num_weight_bytes() const;
  /// Values of the samples that have to be given beside those the cache carries (pipeline::Visit::inputs).
  const std::vector<std::string>& inputs() const { return visit_.inputs(); }
  /// Names of the values that are computed.
  const std::vector<std::string>& carried() const { return carried_; }
  bool reads(const std::string& name) const { return reads_.contains(name); }

  /// Computes what is missing for `count` batches. When all results would take `byte_limit` bytes or more, which is known after the first,
  /// false is returned and nothing more is computed. An Error with Exit::interrupted on Ctrl-C.
  bool compute(int64_t count, const std::function<Batch(int64_t)>& batch, double byte_limit);
  /// The values of a batch that was computed, on the CPU; std::logic_error for any other batch.
  pipeline::Values values(const Batch& batch) const;
  /// Whether `compute` has made all results.
  bool is_complete() const { return is_complete_; }
  /// What all results take, by the size of the first.
  double num_bytes() const { return num_bytes_; }

 private:
  std::string key(const Batch& batch) const;
  data::Tensors compute(const Batch& batch) const;
  void check_interrupt() const;

  models::Model& model_;
  data::Cache& cache_;
  pipeline::Visit visit_;
  c10::Device device_;
  std::vector<std::string> models_, carried_;
  std::set<std::string> reads_;  ///< values that are not made by the units themselves
  data::CacheSection* section_ = nullptr;
  double num_bytes_ = 0;
  bool is_complete_ = false;
};

}  // namespace burnish::train
