#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace burnish::models {

/// Holds what programs read beside a model's weights, made of an open model where its files lack it.
struct CompanionFiles {
  /// The files of a diffusers folder, by their place in it: "transformer/config.json". With model_index.json the folder is whole.
  std::map<std::string, nlohmann::json> configs = {};
  std::map<std::string, std::filesystem::path> tokenizers = {};  ///< folders that become parts of that folder, by their names there
};

}  // namespace burnish::models
