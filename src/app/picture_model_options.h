#pragma once
#include <string>
#include <vector>

#include "config/fields.h"
#include "config/pages.h"
#include "train/subject/model_choice.h"

// Options that all verbs have whose model sees pictures and says something of each.
namespace burnish::app {

/// The model, and how its verb answers.
struct PictureModelOptions {
  train::ModelChoice model;  ///< of which those options are listed that such a model has
  std::string processor_path;
  std::vector<std::string> only;  ///< pictures that are written for, named from the folder on; all, where none is named
  bool json = false;
};

/// Lists the model's options, in a group of theirs; `model_help` says which model it may be.
void model_fields(config::Fields& f, PictureModelOptions& o, const char* model_help);

/// Names what decides what a verb writes, for its journal: its options without those that decide how it is computed and told.
template <class Options>
std::string settings_of(const Options& o) {
  auto listed = o;
  listed.seen_by.json = false;
  listed.seen_by.model.num_threads = 0;
  config::Fields all;
  fields(all, listed);
  return config::to_toml(all);
}

}  // namespace burnish::app
