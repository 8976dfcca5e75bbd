#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace burnish::models {

/// The names of the file in which a diffusers folder lists its components: of a pipeline, and of one that is made of blocks.
const std::vector<std::string>& pipeline_indexes();
/// Returns that file of a folder; nothing where it has none.
std::optional<std::filesystem::path> pipeline_index(const std::filesystem::path& folder);

}  // namespace burnish::models
