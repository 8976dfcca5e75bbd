#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace burnish::records {

/// A file of weights that a run saved, and the part of the model that it holds: "text_encoder" of step-12.text_encoder.safetensors, "" of
/// step-12.safetensors.
struct SavedFile {
  std::string part;
  std::filesystem::path path;
};

/// Finds the files of a run's newest save, by part; the best weights count as newer than the last. `name` is what the run calls its files
/// (its output_name). A data Error where the run saved none.
std::vector<SavedFile> newest_weights(const std::filesystem::path& run, const std::string& name);

/// A save of a run by its step, of each part of the model a file.
struct Save {
  int64_t step = 0;
  std::vector<std::filesystem::path> files = {};
};
/// Finds the saves of a run, by rising step; the best weights, which have no step in their name, are none of them. A data Error where the
/// run saved none by step.
std::vector<Save> find_saves(const std::filesystem::path& run, const std::string& name);

}  // namespace burnish::records
