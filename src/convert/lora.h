#pragma once
#include <filesystem>

#include "convert/low_rank.h"
#include "convert/options.h"
#include "loras/merged.h"

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

/// Reads what options.paths names before the last as adapters.
std::vector<loras::LoraFile> lora_files(const Options& options);

/// Reads the adapters lora_files(options) as one (convert/read_loras.h) and writes it as options say: a file for each expert of the model,
/// whose name it has behind its own, where there are several. What model it is for is told from its names and shapes where that is
/// one of the published ones; a data Error otherwise, and for another model than options.model.
LoraReport convert_lora(const Options& options);

/// Writes, as the adapter options.paths.back(), the difference between the models options.paths[0...] and options.base, layer by layer, by
/// its SVD. What differs beside the weights of linear layers and convolutions is counted in a line.
LoraReport extract_lora(const Options& options);

}  // namespace burnish::convert
