#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace burnish::memory {

/// The use that memory is taken for.
enum class Kind { weights, gradients, optimizer, activations, workspace };
inline constexpr std::array kKinds{"weights", "gradients", "optimizer", "activations", "workspace"};

/// A block of memory from when it is taken until it is freed. Time counts such events.
struct Allocation {
  int64_t num_bytes = 0;
  int64_t taken = 0;
  int64_t freed = std::numeric_limits<int64_t>::max();
  std::string_view place = {};  ///< what went on when it was taken, a name kept by what counts
  Kind kind = Kind::workspace;
  bool is_recorded = false;  ///< whether it belongs to a recording, which has memory of its own
};
using Allocations = std::vector<Allocation>;

/// A number of bytes for each kind.
struct Bytes {
  std::array<int64_t, kKinds.size()> of = {};
  int64_t total() const;
  int64_t& operator[](Kind kind) { return of[static_cast<size_t>(kind)]; }
  int64_t operator[](Kind kind) const { return of[static_cast<size_t>(kind)]; }
};

/// The memory of a stretch of time.
struct Profile {
  Bytes peak;              ///< what makes up the most bytes live at once
  std::string place = {};  ///< what went on at that peak
  /// The largest sum in each of equal parts of the time, and what went on there.
  struct PeakOfTime {
    Bytes most;
    std::string place;
  };
  std::vector<PeakOfTime> parts = {};
};

/// Sums up what was live from `begin` to before `end`.
Profile profile(const Allocations& allocations, int64_t begin, int64_t end, size_t num_parts);

}  // namespace burnish::memory
