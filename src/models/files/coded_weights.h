#pragma once
#include "models/files/coding.h"

// Weights that files have as codes. Which coding a weight has is told by tensors and marks beside it, never by its shape; each coding is a
// row of a table. Whoever reads a model sees such a weight under its name, in its own shape, and may have its numbers or its codes.
namespace burnish::models {

/// Returns the tensors with every weight that lies as codes under its name, in its shape; scales and marks that go with weights are left
/// out. What no coding of the table takes stays as it is.
io::TensorSource show_weights(const io::TensorSource& tensors);

}  // namespace burnish::models
