#pragma once
#include <vector>

#include "loras/merged.h"

namespace burnish::convert {

/// Reads adapter files as one: at their strengths, layers that have the factor 0 left out, and where several adapt a layer as the LoRA that
/// adds what all of them add, of the sum of their ranks. Throws a config Error where a strength other than 1, or a sum, is no adapter of
/// the kinds that were read, and where nothing is left.
loras::AdaptersByComponent read_loras(models::Model& model, const std::vector<loras::LoraFile>& files);

}  // namespace burnish::convert
