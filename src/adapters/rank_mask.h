#pragma once
#include <cstdint>
#include <vector>

namespace burnish::adapters {

/// T-LoRA's rule of how many ranks of a LoRA take part at a share t of noise: of R the first ⌊(1 - t)^alpha (R - least)⌋ + least (Soboleva
/// et al. 2025, arXiv 2507.05964, section 4.1). Little noise trains all of them, noise alone the `least`.
struct RankRule {
  int64_t least = 0;  ///< 0: all ranks, always
  double alpha = 1;
  bool is_on() const { return least > 0; }
  int64_t ranks_at(double share_of_noise, int64_t rank) const;
};

/// While it lives LoRAs compute each sample of a batch, one share of noise for each, with the ranks that take part at its share: on every
/// thread, since a block may be computed again on one of backward's. There is one at a time.
class RankMask {
 public:
  RankMask(const RankRule& rule, std::vector<double> shares_of_noise);
  ~RankMask();
  RankMask(const RankMask&) = delete;
  RankMask& operator=(const RankMask&) = delete;

  /// Returns the ranks that each sample has of a LoRA of this rank: one number where those of all are equal; none without a mask.
  static std::vector<int64_t> ranks_of(int64_t rank);

 private:
  RankRule rule_;
  std::vector<double> shares_;
};

}  // namespace burnish::adapters
