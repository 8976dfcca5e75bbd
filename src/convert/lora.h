#pragma once
#include <filesystem>

#include "convert/low_rank.h"
#include "convert/options.h"
#include "loras/lora_file.h"

namespace burnish::convert {

/// A report of what was written, and how far it is from what was read.
struct LoraReport {
  std::string path = {};
  int64_t num_layers = 0, num_changed = 0;     ///< changed: baked, or of a smaller rank
  int64_t num_widened = 0;                     ///< of a larger rank, by the same product
  double median_error = 0, largest_error = 0;  ///< relative Frobenius norm of the changed layers
  std::string worst_layer = {};
};

/// A config Error where a file that is to be written is there, and may not be written over.
void check_free(const Options& options, const std::filesystem::path& out);

/// Tells whether the path holds an adapter.
bool is_lora(const std::string& path);

/// Reads the adapter options.paths[0], or several files of a model's experts, and writes it as options say: a file for each expert, whose
/// name it has behind its own, where there are several. What model it is for is told from its names and shapes where that is
/// one of the published ones; a data Error otherwise, and for another model than options.model.
LoraReport convert_lora(const Options& options);

/// Writes, as the adapter options.paths.back(), the difference between the models options.paths[0...] and options.base, layer by layer, by
/// its SVD. What differs beside the weights of linear layers and convolutions is counted in a line.
LoraReport extract_lora(const Options& options);

/// The model that an adapter file is for: that of `names`, where it says the name of a published model, or files. Else the published one
/// that its names and shapes fit alone, or of several the one that its metadata names; else the files that its metadata names; else those
/// of `of_run`, the run that wrote it. A data Error where none of these tells.
std::unique_ptr<models::Model> model_of(const std::string& lora, const std::vector<std::string>& names,
                                        const std::vector<std::string>& of_run = {});

}  // namespace burnish::convert
