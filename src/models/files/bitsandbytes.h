#pragma once
#include "models/files/coding.h"

// Weights as bitsandbytes stores them, in files of diffusers and transformers.
namespace burnish::models {

/// Finds NF4 and FP4: `X` holds two codes a byte, the first in the high half; `X.absmax` the scale of each block of the flat weight, or
/// codes of it (`X.nested_absmax`, `X.nested_quant_map`, an offset); `X.quant_map` the 16 values; `X.quant_state.bitsandbytes__nf4` (or
/// `__fp4`) JSON with the shape. A data Error where these do not fit together.
std::optional<CodedWeight> find_four_bits(const MarkedFiles& files, const std::string& name);

/// Finds INT8 by rows (LLM.int8): `L.weight` and `L.SCB`, the largest magnitude of each row.
std::optional<CodedWeight> find_rows_of_int8(const MarkedFiles& files, const std::string& name);

}  // namespace burnish::models
