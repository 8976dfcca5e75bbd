#pragma once
#include "train/prepared.h"

namespace burnish::train {

/// The value size_conditioning of a row (models::UnitGroups) [1, 6].
at::Tensor size_conditioning(const data::Dataset& dataset, int64_t row);

/// The computing half of Prepared: finds the key of every result, and computes those that the cache lacks, unit by unit.
class Preparation {
 public:
  /// `units` in order; of what they write, `carried` is kept.
  Preparation(models::Model& model, const pipeline::Units& units, const std::vector<std::string>& carried, const data::Dataset& dataset,
              data::Cache& cache, Share share);
  /// Computes what is missing of this process's share.
  void run();

  /// Where a value of an input lies; inputs are the dataset's rows in order, then the empty caption.
  struct Place {
    data::CacheSection* section;
    std::string key;
  };
  std::map<std::string, Place> places(size_t input) const;
  size_t num_inputs() const { return prompts_.size(); }

 private:
  struct Stage {
    pipeline::Unit unit;
    data::CacheSection* section = nullptr;         ///< null when nothing it writes is carried
    std::vector<std::string> stored;               ///< what it writes and is carried
    std::vector<std::string> keys;                 ///< by input; "" where the unit does not apply (no picture)
    std::set<std::string> demanded;                ///< keys whose results a later stage computes with
    std::vector<size_t> to_compute;                ///< the first input of each missing key
    std::map<std::string, data::Tensors> passing;  ///< results for later stages only, by key
  };

  void open_stage(const pipeline::Unit& unit, const std::vector<std::string>& carried);
  std::string key_of(const Stage& stage, size_t input) const;
  const Stage* writer(const std::string& value, size_t before) const;
  std::vector<size_t> first_inputs(const Stage& stage) const;
  void plan(size_t index, Share share);
  void compute(size_t index);
  pipeline::Values inputs_of(size_t index, size_t input);
  void check_finite(const pipeline::Unit& unit, const std::string& name, const at::Tensor& value, size_t input) const;
  at::Tensor load_picture(size_t input);

  models::Model& model_;
  const data::Dataset& dataset_;
  data::Cache& cache_;
  std::vector<std::string> prompts_, picture_hashes_;  ///< by input
  std::vector<Stage> stages_;
};

}  // namespace burnish::train
