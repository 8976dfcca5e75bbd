#pragma once
#include <filesystem>

namespace burnish::data {

/// The member of that archive with the rows, a line each: {"values": by column, "files": [where in them names of members stand]}.
constexpr const char* kRowsMember = "rows.jsonl";

/// The tar archive in which what a Parquet file holds can be read at random: written when it is first asked for, into the folder
/// `burnish/parquet-1` of $XDG_CACHE_HOME or ~/.cache, under the hash of the content. A data Error for what is no Parquet file,
/// and where Arrow's library is not there.
std::filesystem::path unpacked_parquet(const std::filesystem::path& file);

}  // namespace burnish::data
