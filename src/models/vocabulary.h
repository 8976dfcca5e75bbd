#pragma once
#include <string>

#include "models/files.h"

namespace burnish::models {

/// Returns the name of the tensor in which a text encoder's file carries its vocabulary, as ComfyUI's do; "" where it has none.
std::string vocabulary_in(const ModelEntry& entry);

}  // namespace burnish::models
