#pragma once
#include "adapters/attach.h"

namespace burnish::adapters {

/// Gives adapters whose factors have a smaller rank this one, so that training can go on with it. What they add to their weights stays as
/// it is, to the bit of the factors: of each new pair one side is zero and the other drawn as at a fresh start, so that both can learn.
///   LoRA, DoRA   new rows of A drawn, new columns of B zero
///   LoHa         new columns of both P zero, new rows of both Q drawn
///   LoKr         of W2 new columns of its left part drawn and new rows of the right one zero, of a factored W1 the other way round; a W2
///                that is whole at this rank is multiplied out
/// Scales stay, so an alpha grows with the rank; under rslora with its root. Entries that share tensors (see Change) still do, and equal
/// factors stay equal: draws come from `seed` and the factor's numbers. Kinds without a rank, and OFT, whose rank is the side of its
/// blocks, stay as they are.
std::vector<AdapterWeights> widened(std::vector<AdapterWeights> weights, int64_t rank, uint64_t seed);

/// Tells whether an adapter has factors of a rank that can be made larger.
bool has_rank_to_widen(const AdapterWeights& weights);

}  // namespace burnish::adapters
