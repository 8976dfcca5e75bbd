#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "studio/workspace.h"

namespace burnish::studio {

/// Prompts of previews that were typed on a page, each text a file of prompts/ that is called by its content: settings name it, and no
/// text is ever replaced under settings that are older.

/// Writes a text, and returns the path by which settings in queue/ name it. A config Error for a text without a prompt.
std::string keep_prompts(const Workspace& workspace, const std::string& text);

/// The text that settings name by this path; nothing where it is none that keep_prompts wrote in this workspace.
std::optional<std::string> kept_prompts(const Workspace& workspace, const std::string& path);

}  // namespace burnish::studio
