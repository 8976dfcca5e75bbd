#pragma once
#include <string>
#include <vector>

#include "data/read_row.h"

// What stands in rows of datasets, for tests.
namespace burnish::test {

/// Returns a column that is cut as the target is.
inline Column beside(const std::string& name) { return {.name = name, .is = Column::Is::clip, .fit = Column::Fit::as_target}; }
/// Returns a column of pictures that are cut by their own size.
inline Column list_of(const std::string& name) { return {.name = name}; }

inline at::Tensor read_target(const data::Dataset& dataset, int64_t row, int64_t variant = 0) {
  return std::get<at::Tensor>(data::read(dataset, row, target_of(dataset.options().columns), variant));
}

inline at::Tensor read_beside(const data::Dataset& dataset, int64_t row, const std::string& name, int64_t variant = 0) {
  return std::get<at::Tensor>(data::read(dataset, row, *find_column(dataset.options().columns, name), variant));
}

inline std::vector<at::Tensor> read_list(const data::Dataset& dataset, int64_t row, const std::string& name, int64_t variant = 0) {
  return std::get<std::vector<at::Tensor>>(data::read(dataset, row, *find_column(dataset.options().columns, name), variant));
}

inline at::Tensor read_mask(const data::Dataset& dataset, int64_t row, int64_t variant = 0) {
  return std::get<at::Tensor>(data::read(dataset, row, *mask_of(dataset.options().columns), variant));
}

}  // namespace burnish::test
