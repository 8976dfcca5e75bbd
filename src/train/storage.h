#pragma once
#include <set>

#include "train/options.h"

namespace burnish::train {

/// Settles how the linear weights of every component are held: those that `fp8_models` names in weight_format, FP8 files as they are,
/// everything else as parameters. `trained` are the components whose own weights train. By file headers alone.
/// A config Error for an entry that names no model, names the trained one, or for fp8_compute without FP8 weights.
void choose_storage(models::Model& model, const ModelChoice& choice, const std::set<std::string>& trained);

/// What became of a component's linear layers, for the log: "" when all are parameters.
std::string storage_text(const models::Model& model, const models::Component& component, const ModelChoice& choice);

}  // namespace burnish::train
