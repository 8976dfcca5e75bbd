#pragma once
#include <filesystem>
#include <string>
#include <utility>

#include "models/files/files.h"

namespace burnish::models {

/// Returns the name of the tensor in which a text encoder's file carries its vocabulary, as ComfyUI's do, or its tokenizer.json; "" where
/// it has none.
std::string vocabulary_in(const ModelEntry& entry);

/// Returns a vocabulary as this tensor, with its name in a file of the text encoder alone.
std::pair<std::string, at::Tensor> vocabulary_tensor(const std::filesystem::path& vocabulary);

}  // namespace burnish::models
