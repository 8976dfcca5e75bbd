#pragma once
#include <optional>
#include <string>
#include <vector>

namespace burnish::convert {

/// All options of `burnish convert`.
struct Options {
  std::vector<std::string> paths = {};  ///< the paths that are read, and last the one that is written
  // adapters
  std::string lora_format = "diffusers", lora_type = "keep";
  int64_t lora_rank = 0;
  double lora_energy = 0;
  std::string lora_base_model = {};
  std::vector<std::string> model = {};         ///< the model that an adapter belongs to: the name of a published one, or its files
  std::vector<std::string> model_of_run = {};  ///< files of the model that the run trained in whose folder the adapter lies; none known
  // vectors of words
  std::string embedding_format = {};  ///< "": those of a file are a1111's, and a LoRA's stay where they are
  // models
  std::vector<std::string> lora = {};  ///< merged: "file" or "file:strength"
  std::vector<std::string> base = {};  ///< the model that this one was trained from, which makes the output the adapter between them
  std::string weight_format = "keep", config_from = {};

  std::string dtype = "keep";
  bool overwrite = false;
};

}  // namespace burnish::convert
