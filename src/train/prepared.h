#pragma once
#include <map>

#include "data/dataset.h"
#include "models/family.h"

namespace burnish::train {

/// What the frozen models make of each sample, computed once: every model is loaded, run over all samples, and dropped before the
/// next, so that no two are in memory together.
class Prepared {
 public:
  /// Runs `units` (none of which depends on a draw or a trained model) over all rows, keeping `carried`.
  Prepared(models::Model& model, const pipeline::Units& units, const std::vector<std::string>& carried, const data::Dataset& dataset);
  /// The values of one row, each with a leading batch dimension of 1.
  const pipeline::Values& values(int64_t row) const;
  /// Rows joined into a batch.
  pipeline::Values batch(const std::vector<int64_t>& rows) const;
  int64_t num_bytes() const;

 private:
  void run_unit(const pipeline::Unit& unit, const data::Dataset& dataset);
  static void keep(const pipeline::Unit& unit, int64_t row, const pipeline::Values& values, pipeline::Values& kept);
  std::map<int64_t, pipeline::Values> by_row_;
};

}  // namespace burnish::train
