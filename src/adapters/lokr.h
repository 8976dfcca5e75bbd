#pragma once
#include <algorithm>
#include <cstdint>

namespace burnish::adapters {

/// The rank from which on LoKr's second factor is whole however large it is: LyCORIS' users write 10000 or 100000 for it.
constexpr int64_t kWholeLokr = 10000;

/// The largest rank that options take for LoKr; of other kinds kMostRank (base/limits.h) holds.
constexpr int64_t kMostLokrRank = 1'000'000'000;

/// Tells whether LoKr of this rank holds its second factor [out, in] whole, as it does where two thin matrices would be no smaller.
inline bool is_whole_lokr(int64_t rank, int64_t out, int64_t in) { return rank >= kWholeLokr || 2 * rank >= std::max(out, in); }

}  // namespace burnish::adapters
