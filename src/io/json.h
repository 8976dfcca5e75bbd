#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace burnish::io {

/// The parsed file; a data Error with line and column when it is not JSON.
nlohmann::json read_json(const std::filesystem::path& path);

}  // namespace burnish::io
