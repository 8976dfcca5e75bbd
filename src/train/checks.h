#pragma once
#include <filesystem>

#include "adapters/adapter_file.h"
#include "config/fields.h"
#include "models/family.h"

namespace burnish::train {

/// A config Error for a number among the fields that is not finite.
void check_finite(const config::Fields& fields);

/// A config Error unless `value` is at least `least`.
void check_at_least(const char* name, double value, double least);

/// Makes the folder and makes sure that files can be written in it; a data Error otherwise.
void make_output_folder(const std::filesystem::path& folder);

/// The adapters of a file, under the paths of `root`, the model's denoiser (a skeleton will do). A data Error when the file does not fit
/// it.
std::vector<adapters::AdapterWeights> read_lora(const models::Model& model, nn::Module& root, const std::string& file);

}  // namespace burnish::train
