#pragma once
#include "train/prepared.h"

namespace burnish::train {

/// The value size_conditioning of a row's variant (models::UnitGroups) [1, 6]; of a mirrored picture, as its mirror image was cut.
at::Tensor size_conditioning(const data::Dataset& dataset, int64_t row, int64_t variant = 0);

/// The computing half of Prepared: finds the key of every result, and computes those that the cache lacks, unit by unit.
class Preparation {
 public:
  /// `units` in order; of what they write, `carried` is kept.
  Preparation(models::Model& model, const pipeline::Units& units, const std::vector<std::string>& carried, const data::Dataset& dataset,
              data::Cache& cache, Share share);
  /// Computes what is missing of this process's share.
  void run();

  /// Where a value of an input lies; inputs are the variants of the dataset's rows in order, then the empty caption.
  struct Place {
    data::CacheSection* section;
    std::string key;
  };
  std::map<std::string, Place> places(size_t input) const;
  size_t num_inputs() const { return num_pictures() + 1; }
  /// The row of an input that is not the empty caption.
  const std::string& picture_hash(size_t input) const { return picture_hashes_[input / num_variants()]; }
  int64_t row(size_t input) const { return dataset_.rows()[input / num_variants()]; }

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
  size_t num_variants() const { return static_cast<size_t>(dataset_.num_variants()); }
  size_t num_pictures() const { return dataset_.rows().size() * num_variants(); }
  int64_t variant(size_t input) const { return static_cast<int64_t>(input % num_variants()); }
  const std::string& prompt(size_t input) const;

  models::Model& model_;
  const data::Dataset& dataset_;
  data::Cache& cache_;
  std::vector<std::string> picture_hashes_;  ///< by index of the row
  std::vector<Stage> stages_;
};

}  // namespace burnish::train
