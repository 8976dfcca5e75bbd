#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/model/model.h"

namespace burnish::convert {

/// Tells whether the path holds an adapter.
bool is_lora(const std::string& path);

/// The model that an adapter file is for: that of `names`, where it says the name of a published model, or files. Else the published one
/// that its names and shapes fit alone, or of several the one that its metadata names; else the files that its metadata names; else those
/// of `of_run`, the run that wrote it. A data Error where none of these tells.
std::unique_ptr<models::Model> model_of(const std::string& lora, const std::vector<std::string>& names,
                                        const std::vector<std::string>& of_run = {});

}  // namespace burnish::convert
