#include "dist/mesh.h"

#include <fmt/core.h>

namespace burnish::dist {

Mesh::Mesh(const World& world, int64_t row_size, int64_t num_places) {
  const auto width = row_size == 0 ? world.size() : row_size, row = world.rank() / width, place = world.rank() % width;
  row_ = world.some(fmt::format("row {}", row), place, width);
  column_ = world.some(fmt::format("column {}", place), row, world.size() / width);
  places_ = world.some(fmt::format("places {}", world.rank() / num_places), world.rank() % num_places, num_places);
}

}  // namespace burnish::dist
