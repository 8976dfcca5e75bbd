#pragma once
#include <filesystem>
#include <functional>
#include <string_view>

namespace burnish::io {

/// Tells whether a file that is there was written by the command which now asks: by what the file itself says.
using IsOwn = std::function<bool(const std::filesystem::path& path)>;

/// Holds the rule for whatever writes where a user names a place: a command may make what is new, or replace what it wrote itself; where
/// the user says that it shall replace what is there (--overwrite, --caption_mode replace), what is of the kind that it writes. Throws a
/// config Error of `room` where something else is there, a file that cannot be read for example.
void check_replaces(const char* room, const std::filesystem::path& path, const IsOwn& is_own);

/// Tells whether a file is a text, whatever its encoding: no byte of it is 0. It is what commands that write texts may replace.
bool is_text(const std::filesystem::path& path);

/// Holds that rule for a folder that is replaced as a whole: each file in it must be the command's own, since all of them go.
void check_replaces_folder(const char* room, const std::filesystem::path& folder, const IsOwn& is_own);

/// Refuses a name for a file that is to be written: a config Error of `room` unless `path` ends in `ending` and check_replaces has nothing
/// against it. A data Error when no file can be written there.
void check_output(const char* room, const std::filesystem::path& path, std::string_view ending, const IsOwn& is_own);

}  // namespace burnish::io
