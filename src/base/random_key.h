#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace burnish {

/// The purpose of a random number: part of its key, so that two purposes never share numbers.
enum class Purpose : uint64_t {
  shuffle = 1,
  noise = 2,
  timestep = 3,
  dropout = 4,
  init = 5,
  sample = 6,
  rounding = 7,
  noise_offset = 8,
  latents = 9,
  augmentation = 10,
  variant = 11,
  caption = 12,
  validation = 13,
  trajectory = 15,
  class_turns = 16,
  expert = 17,
  given = 18,
  round = 19,
  drawing = 20
};

/// Mixes the bits of x by one round of SplitMix64 (Steele, Lea & Flood 2014).
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// Makes a number of a name, the same on every machine: part of the key of what is drawn for a layer.
constexpr uint64_t mix64(std::string_view name) {
  uint64_t hash = 0;
  for (char c : name) hash = mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

/// The name of a random draw. Equal keys draw equal numbers, whatever was drawn before: a resumed, re-batched or re-sharded run
/// sees the same noise.
struct RandomKey {
  uint64_t seed = 0, epoch = 0, sample = 0;
  Purpose purpose = Purpose::noise;
  constexpr uint64_t value() const { return mix64(mix64(mix64(mix64(seed) ^ epoch) ^ sample) ^ static_cast<uint64_t>(purpose)); }
};

/// A sequence of numbers from one key.
class CounterRandom {
 public:
  explicit CounterRandom(uint64_t key) : key_(key) {}
  uint64_t next() { return mix64(key_ ^ mix64(counter_++)); }
  /// Draws a number in [0, 1) of 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// Draws a standard normal number (Box & Muller 1958).
  double normal() {
    auto radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }
  /// Draws a whole number in [0, bound).
  uint64_t below(uint64_t bound) { return static_cast<uint64_t>(uniform() * static_cast<double>(bound)); }

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
};

}  // namespace burnish
