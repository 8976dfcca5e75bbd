#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "studio/workspace.h"

namespace burnish::studio {

/// Moves what belongs together into the bin of a workspace, and notes where it was (bin/.moved/ID.json), so that it can be brought back.
/// Returns the note's id; nothing, and all stays where it is, where something has one of the names there.
std::optional<std::string> move_to_bin(const Workspace& workspace, const std::vector<Move>& moves);

/// Moves a folder, or a file, of the workspace into its bin, by when and what. Returns its id there.
std::string throw_away(const Workspace& workspace, const std::filesystem::path& folder);

/// [{"id", "from": path from the workspace on, "when": seconds since 1970}] of all that can be brought back, the newest first.
nlohmann::json list_bin(const Workspace& workspace);

/// Moves what has this id back to where it was. A config Error where there is no such id, or something else is in one of its places.
void bring_back(const Workspace& workspace, const std::string& id);

}  // namespace burnish::studio
