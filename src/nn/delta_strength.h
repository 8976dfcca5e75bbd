#pragma once

namespace burnish::nn {

/// The strength at which deltas act on this thread for as long as it lives: a factor on what they change, -1 for its opposite. At 0 layers
/// compute what their weights alone give, bit for bit. What runs layers again in backward does so at the strength that forward had.
class DeltaStrength {
 public:
  explicit DeltaStrength(double strength);
  ~DeltaStrength();
  DeltaStrength(const DeltaStrength&) = delete;
  DeltaStrength& operator=(const DeltaStrength&) = delete;
  /// Returns the strength on this thread; 1 where none lives.
  static double current();

 private:
  double before_;
};

}  // namespace burnish::nn
