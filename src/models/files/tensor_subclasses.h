#pragma once
#include "models/files/coding.h"

// Weights of eight bits as quanto and torchao save them: the parts of a tensor of theirs, each under a name of its own.
namespace burnish::models {

/// Returns the tensors with the codes of such weights under the weights' names, `<layer>.weight`; scales keep theirs.
io::TensorSource with_weights_names(const io::TensorSource& tensors);

/// Finds INT8 or FP8 with a scale for each row: quanto's `<layer>.weight._scale`, torchao's `<layer>._weight_scale`, which has a zero point
/// of 0 beside it or none.
std::optional<CodedWeight> find_row_scaled(const MarkedFiles& files, const std::string& name);

}  // namespace burnish::models
