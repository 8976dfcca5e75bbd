#pragma once
#include <filesystem>

#include "data/survey.h"

namespace burnish::report {

/// Writes a page that asks for nothing from elsewhere: of each bucket the first `num_pictures`, as they are cut for training, over their
/// captions.
void write_contact_sheet(const std::filesystem::path& path, const data::Dataset& dataset, const data::Survey& survey, int64_t num_pictures);

}  // namespace burnish::report
