#pragma once
#include "models/files/open_files.h"
#include "tests/golden.h"

namespace burnish::captioning {

/// A model of a folder of the golden files, or of one that begins with /, loaded in fp32.
template <class Model>
struct Opened {
  explicit Opened(const std::string& folder)
      : files(models::open_files(
            {.model = {folder.starts_with('/') ? folder : test::golden_path(folder)}, .model_paths = {}, .model_id_with_origin_paths = {}},
            [](const std::string&) { return std::nullopt; })),
        options{.dtype = at::kFloat, .device = test::device()},
        model(files, options, "") {
    for (const auto& component : model.components().list()) model.components().load(component.name);
  }
  models::ModelFiles files;
  models::ModelOptions options;
  Model model;
};

}  // namespace burnish::captioning
