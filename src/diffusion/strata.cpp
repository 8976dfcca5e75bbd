#include "diffusion/strata.h"

#include <functional>
#include <utility>

#include "base/permutation.h"

namespace burnish::diffusion {

namespace {

constexpr uint64_t inverse_of(uint64_t odd) {
  uint64_t inverse = odd;  // right in its last three bits, of which each round doubles the number
  for (int round = 0; round < 5; ++round) inverse *= 2 - odd * inverse;
  return inverse;
}

/// Finds the number that mix64 makes `mixed` of.
constexpr uint64_t unmix64(uint64_t mixed) {
  constexpr uint64_t kFirst = inverse_of(0xBF58476D1CE4E5B9ull), kSecond = inverse_of(0x94D049BB133111EBull);
  mixed = (mixed ^ (mixed >> 31) ^ (mixed >> 62)) * kSecond;
  mixed = (mixed ^ (mixed >> 27) ^ (mixed >> 54)) * kFirst;
  return (mixed ^ (mixed >> 30) ^ (mixed >> 60)) - 0x9E3779B97F4A7C15ull;
}
static_assert(unmix64(mix64(uint64_t{12345})) == 12345);

/// Returns a key whose sequence begins with u: what draws a time by a key draws the one of this share.
uint64_t key_beginning_with(double u) { return unmix64(static_cast<uint64_t>(u * 0x1.0p53) << 11) ^ mix64(uint64_t{0}); }

/// The last share at which a condition does not hold that holds from some share on, and the first at which it does.
std::pair<double, double> turn(const std::function<bool(double)>& holds) {
  double before = 0, from = 1;
  if (holds(before)) return {0, 0};
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (before + from) / 2;
    (holds(middle) ? from : before) = middle;
  }
  return {before, from};
}

}  // namespace

double Strata::share(int64_t number, double v) const {
  return (static_cast<double>(Permutation(key, count)[number]) + v) / static_cast<double>(count);
}

double time_of_draws(const Stretch& stretch, const Process& process, const TimestepOptions& options, double u, int64_t num_image_tokens) {
  const auto draw = [&](double share) { return process.draw_time(options, key_beginning_with(share), num_image_tokens); };
  if (stretch.is_whole()) return draw(u);
  const auto noise = [&](double share) { return process.share_of(draw(share)); };
  const bool rises = noise(0.25) <= noise(0.75);
  const auto up = [&](double share) { return rises ? share : 1 - 0x1.0p-53 - share; };
  const double low = turn([&](double share) { return noise(up(share)) >= stretch.from; }).second;
  const double high = stretch.to >= 1 ? 1 : turn([&](double share) { return noise(up(share)) >= stretch.to; }).first;
  if (low < high) return draw(up(low + (high - low) * u));
  return draw_time_in(stretch, process, options, key_beginning_with(u), num_image_tokens);
}

}  // namespace burnish::diffusion
