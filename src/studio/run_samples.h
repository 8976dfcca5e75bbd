#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "studio/studio.h"

namespace burnish::studio {

/// Finds the dataset of the workspace that a run reads; "" where its pictures lie elsewhere.
std::string dataset_of(Studio& studio, const std::filesystem::path& run);

/// Adds to what is said of a sample, whose picture is "file", which of a dataset's it is: "item", its name there or null, and
/// "is_left_out".
void name_item(Studio& studio, const std::string& dataset, nlohmann::json& sample);

}  // namespace burnish::studio
