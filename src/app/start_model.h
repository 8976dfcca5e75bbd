#pragma once
#include <string>
#include <vector>

#include "models/registry.h"

namespace burnish::app {

/// A model that training may start from.
struct StartModel {
  std::vector<std::string> names;  ///< what --model names: files, folders, or an id on a hub
  std::vector<std::string> sizes;  ///< what a plan is made of: these names, or that of a published model which is not on this machine
  std::string title;               ///< "FLUX.1-dev"
  std::string family = {};         ///< the one that it is of
  std::string denoiser = {};       ///< its component that trains
  int64_t num_bytes = 0;           ///< bytes of its files, where it is here
  models::UsualDrawing drawn = {};
  bool is_here = true;                 ///< whether its files are on this machine; else they are fetched when training begins
  std::string missing_tokenizer = {};  ///< "tokenizer_path" or "tokenizer_2_path" where a text encoder has none beside it, or ""
};

/// Opens a model by what --model may name, or by the name of a published one, which stands for its id. Fetches nothing but a tokenizer
/// that the options name by an id. Throws config and
/// data Errors for what is no model, or is not here and of sizes that nobody knows.
StartModel choose_model(const std::vector<std::string>& names, const models::ModelOptions& options);

/// Finds models that training may start from in the current folder, in `models` below it, in folders of other programs
/// (foreign/model_folders.h), and in the cache of the hub, by the names that --model takes.
std::vector<StartModel> find_models();

/// A model that writes something about pictures.
struct Annotator {
  std::string name;   ///< what --model takes
  std::string title;  ///< "Qwen3-VL"
  int64_t num_bytes = 0;
};
/// Finds, by file headers, models that write captions (`burnish caption`) or masks (`burnish mask`), in the places of find_models.
struct Annotators {
  std::vector<Annotator> caption, mask;
};
Annotators find_annotators();

}  // namespace burnish::app
