#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "studio/workspace.h"

namespace burnish::studio {

/// Choices between two pictures of a drawing, as a dataset that `--task dpo` trains on: a folder of captioned pictures of which each has a
/// JSON file beside it that names the picture which was liked less (data/captioned_folder.h). That one lies in .rejected, where no program
/// looks for pictures.

/// [[chosen, rejected]]: the pictures of a drawing, by their numbers, between which somebody chose already.
nlohmann::json choices_of(const std::filesystem::path& drawing);

/// Adds a choice {"dataset", "chosen", "rejected"}: numbers of two pictures of the drawing that have one prompt and one size. Makes the
/// dataset where there is none of that name. A config Error for pictures that are not there, or that no pair is made of.
void choose(const Workspace& workspace, const std::filesystem::path& drawing, const nlohmann::json& wish);

}  // namespace burnish::studio
