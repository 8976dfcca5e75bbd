#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint_files.h"
#include "tokenizers/tokenizer.h"

namespace burnish::models {

/// One set of weight files that belong together (a component folder, a list of shards, or one file), with what is beside them.
struct ModelEntry {
  std::string label;                        ///< the user's name for it, for messages
  std::filesystem::path folder;             ///< the folder the files lie in
  std::string component;                    ///< "transformer", "vae", ... when a model_index.json says so; else ""
  nlohmann::json config;                    ///< config.json beside the weights; null without one
  std::optional<io::TensorSource> tensors;  ///< absent for a folder that holds a config.json and no weights
  bool is_sizes = false;                    ///< whether it is a published model that is only named: `tensors` has shapes and no numbers
  std::string in_model = {};                ///< the whole model that it is a part of, as the user named it; "": it was named by itself
};

/// The tokenizers that were loaded, by component and folder.
struct LoadedTokenizers {
  std::map<std::pair<std::string, std::filesystem::path>, std::shared_ptr<const tokenizers::Tokenizer>> by_place;
};

/// The files of a run, as the user named them.
struct ModelFiles {
  std::vector<ModelEntry> entries;  ///< the first that has a component is read: those that were named by themselves, then parts of models
  /// Folders that may hold tokenizers and a scheduler: diffusers folders (with model_index.json) and the folders of model ids.
  std::vector<std::filesystem::path> pipeline_folders;
  /// The loaded tokenizers, which copies share: a vocabulary is read once.
  std::shared_ptr<LoadedTokenizers> tokenizers = std::make_shared<LoadedTokenizers>();

  /// Returns the first entry that `wanted` accepts, or null.
  const ModelEntry* find(const std::function<bool(const ModelEntry&)>& wanted) const;
  /// Returns a sub-folder or file of the first pipeline folder that has it, or nothing.
  std::optional<std::filesystem::path> in_pipeline(const std::string& relative) const;
  /// Lists the labels, for messages.
  std::string describe() const;
};

/// Throws the exception that is being handled; an Error then begins with a place.
[[noreturn]] void throw_naming(const std::string& place);

/// Returns what `read` gives; a data Error of it then begins with where the values lie that it reads.
template <class Read>
auto naming(const std::string& place, Read&& read) {
  try {
    return read();
  } catch (...) {
    throw_naming(place);
  }
}

/// The stems of weight files in component folders; those that are looked for first stand first.
extern const std::vector<std::string> kWeightStems;

/// Tells whether a component of a model_index.json may be missing, since no model here runs it.
bool is_unused_component(const std::string& name);

}  // namespace burnish::models
