#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace burnish {

/// Tells whether a name is a whole path of Windows: C:/runs, C:\runs or \\server\share. It leads nowhere on other systems.
bool is_path_of_windows(std::string_view name);

/// Returns where a path of Windows lies on a Linux below Windows: a drive is a folder of `drives`, as /mnt/c is C:, and \\wsl$\NAME is the
/// root of that Linux. "" for a drive that is not there, and for servers.
std::string windows_path_below(const std::filesystem::path& drives, std::string_view name);

/// Returns the path that a user's text names: "~" stands for the home folder, and where Linux runs below Windows (WSL), whole paths of
/// Windows are those of its drives. Every other text stays as it is.
std::string typed_path(const std::string& text);

}  // namespace burnish
