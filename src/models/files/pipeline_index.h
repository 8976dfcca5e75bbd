#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

// The file in a diffusers folder that lists its components.
namespace burnish::models {

/// The names that it has: model_index.json in folders of pipelines, and that of pipelines which are made of blocks (modular ones).
extern const std::vector<std::string> kIndexNames;

/// Returns its path in a folder; nothing where the folder has none.
std::optional<std::filesystem::path> index_in(const std::filesystem::path& folder);

/// A component as an index lists it.
struct IndexedComponent {
  std::string name;
  std::string class_name;  ///< "" where none is stated
  std::string folder;      ///< its place in the folder
  /// Tells whether the index of a modular pipeline names another model for it than for most: it need not be in the folder.
  bool may_lie_elsewhere = false;

  /// Tells whether it makes tokens or pixels and has no weights.
  bool is_processor() const { return name.find("tokenizer") != name.npos || name.ends_with("processor"); }
};

/// Lists the components of an index, without settings.
std::vector<IndexedComponent> components_in(const nlohmann::json& index);

}  // namespace burnish::models
