#pragma once
#include "loras/lora_file.h"
#include "train/subject/chosen.h"
#include "train/subject/component_trees.h"

namespace burnish::train {

/// Returns the files that lora_checkpoint names: one, or one for each expert.
std::vector<std::string> checkpoint_files(const std::string& text);

/// Adds a component that carries adapters. A config Error where it trains whole, or is named twice.
void add_adapters(Chosen& chosen, const std::string& component);

/// Settles which layers of what is chosen carry adapters, of what rank and alpha: as `checkpoint` has them, which is empty without
/// lora_checkpoint, or by the settings. Throws a config Error for targets that match no layer, and layers that the layout of adapter files
/// cannot hold.
void choose_layers(Chosen& chosen, models::Model& model, ComponentTrees& trees, loras::AdaptersByComponent checkpoint);

}  // namespace burnish::train
