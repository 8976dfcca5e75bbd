#pragma once
#include <memory>

#include "adapters/change.h"

namespace burnish::adapters {

/// The change that parameters make, by what they are called (read_adapter):
/// lora, loha, lokr, full, oft  see make_update; they can be trained, and are Updates
/// oft, boft  W is turned by orthogonal blocks R (Qiu et al. 2023, arXiv 2306.07280; Liu et al. 2023, arXiv 2311.06243):
///            row_rotation [stages, blocks, b, b] from its output's side or column_rotation from its input's, stage after stage; order
///            [stages, n], the rows or columns that the blocks of a stage take, all in their own order without it; rescale [out], factors
///            of rows after that. Scale s turns by I + s (R - I).
/// ia3        W ∘ (1 + s g), row_gain [out, 1] or column_gain [in channels, 1] (Liu et al. 2022, arXiv 2205.05638)
/// glora      ΔW = s (W A1 A2 + B1 B2), a1.weight [in channels, rank], ... (Chavan et al. 2023, arXiv 2306.07967; LyCORIS' form of it)
///            of peft: ΔW = s (W ∘ G1 G2 + B1 B2), with g1.weight [out, rank] and g2.weight [rank, in] in place of A1 and A2
/// tlora      ΔW = s (P diag(λ) Q - W cut to that rank), p_layer.weight [out, rank], q_layer.weight [rank, in], lambda_layer [1, rank]
///            (Soboleva et al. 2025, arXiv 2507.05964, as LyCORIS has it, which starts from W's largest singular values)
/// A set that makes no change of its kind is a std::logic_error.
std::unique_ptr<Change> make_change(Kind kind, Parameters parameters, double scale, RowRange fused_rows = {});

}  // namespace burnish::adapters
