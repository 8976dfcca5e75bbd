#pragma once
#include <filesystem>

namespace burnish::train {

/// Makes the folder and makes sure that files can be written in it; a data Error otherwise.
void make_output_folder(const std::filesystem::path& folder);

}  // namespace burnish::train
