#pragma once
#include <memory>

#include "dist/world.h"

namespace burnish::dist {

/// The processes of a run in rows of neighbours. What is divided is divided among the neighbours of a row, and every row has all of it, so
/// that most of what travels does so between neighbours (hybrid sharding: Zhao et al. 2023, arXiv 2304.11277).
class Mesh {
 public:
  /// `row_size`: of a row, which divides the number of processes; 0: all are one row. `num_places`: of neighbours that train on the same
  /// samples. `world` must outlive this. All of its processes make theirs at once.
  Mesh(const World& world, int64_t row_size, int64_t num_places = 1);

  /// The processes of this one's row.
  Group& row() const { return *row_; }
  /// The processes that have this one's number in their rows, by row.
  Group& column() const { return *column_; }
  /// The processes that train on the samples of this one, each on some of their tokens.
  const std::shared_ptr<Group>& places() const { return places_; }
  /// Tells whether this is the row of the first process.
  bool is_first_row() const { return column_->rank() == 0; }

 private:
  std::shared_ptr<Group> row_, column_, places_;
};

}  // namespace burnish::dist
