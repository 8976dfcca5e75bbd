#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "models/model.h"

namespace burnish::models {

/// What programs read beside a model's weights, made of an open model where its files lack it.
struct BesideWeights {
  /// The files of a diffusers folder, by their place in it: "transformer/config.json". With model_index.json the folder is whole.
  std::map<std::string, nlohmann::json> configs = {};
  std::map<std::string, std::filesystem::path> tokenizers = {};  ///< folders that become parts of that folder, by their names there
};

/// Makes it, of families that can; a data Error where the files leave open which published model they are, and these differ.
BesideWeights beside_weights(const Model& model);

/// Returns the vocabulary that programs look for among a component's tensors in one file; nothing where they look for none, or none lies
/// beside the weights.
std::optional<std::filesystem::path> vocabulary_beside(const Model& model, const std::string& component);

}  // namespace burnish::models
