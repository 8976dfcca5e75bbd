#pragma once
#include "records/visits.h"

namespace burnish::records {

/// The losses of a sample beside those of all others, comparable whatever times were drawn for it and whenever: a difference is the
/// logarithm of a loss less that of the mean loss of visits at like times and steps.
struct SampleLosses {
  int64_t row = 0;
  int64_t num_visits = 0, num_noisy = 0;  ///< of them those at a time of a half or more
  double difference = 0;                  ///< the mean over its visits
  double noisy_difference = 0;            ///< the same of those at a time of a half or more; 0 where there are none
  /// The two say how far these differences lie from those of the samples in the middle: in deviations of these, or in those that so few
  /// visits leave open, where those are larger.
  double distance = 0, noisy_distance = 0;
};

/// The distance from which a sample stands out.
inline constexpr double kStandsOut = 3;

/// Compares the losses of samples, by rising row; those without a visit are left out. Losses of 0 count as the smallest that are above.
std::vector<SampleLosses> compare_samples(const std::vector<Visit>& visits);

}  // namespace burnish::records
