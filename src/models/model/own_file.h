#pragma once
#include "models/model/model.h"

namespace burnish::models {

/// Returns the names of a component's tensors in a file that can stand in the place of its own in a pipeline's folder: those of that file,
/// whichever of the spellings it has that programs read; where the component is of no folder, or has its authors' names,
/// `ComponentNames::folder_file`.
FileNames names_in_folder(const Model& model, const std::string& component);

/// Returns the tensors of one of the model's files that are no weight of its components and no scale, under the file's names: a vision
/// tower beside a text encoder, a head, marks, counters. `entry` and `components` must outlive what is returned.
io::TensorSource unread_tensors(const ModelEntry& entry, const Components& components);

}  // namespace burnish::models
