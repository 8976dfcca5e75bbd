#pragma once
#include <cstdint>

namespace burnish::memory {

/// Counts what operators multiply that are called on this thread while it lives, by the shapes that they are called with: products,
/// convolutions and attention. One lives at a time.
class Multiplications {
 public:
  Multiplications();
  ~Multiplications();
  Multiplications(const Multiplications&) = delete;
  Multiplications& operator=(const Multiplications&) = delete;

  double so_far() const;
  /// The count of this thread, which may be written to: what is known without being called is added, and what is called once more is not.
  static double& of_thread();

 private:
  uint64_t callback_;
};

}  // namespace burnish::memory
