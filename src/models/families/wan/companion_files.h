#pragma once
#include "models/model/companion_files.h"

namespace burnish::models::wan {

/// Returns what diffusers' folders of Wan say beside the weights. None for models that diffusers has no class for.
CompanionFiles companion_files(const Model& model);
/// The vocabulary of umT5, which ComfyUI finds in the text encoder's file alone.
std::optional<std::filesystem::path> vocabulary_beside(const Model& model, const std::string& component);

}  // namespace burnish::models::wan
