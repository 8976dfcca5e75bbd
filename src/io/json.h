#pragma once
#include <exception>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace burnish::io {

/// The parsed file; a data Error with line and column when it is not JSON.
nlohmann::json read_json(const std::filesystem::path& path);
/// Reads a file without the value under that name in its outermost object, which takes no memory.
nlohmann::json read_json_without(const std::filesystem::path& path, const std::string& name);

/// Tells whether a file begins as an object of JSON does, without reading more of it.
bool begins_as_object(const std::filesystem::path& path);

/// Throws a data Error that calls the file damaged and says what to do, where reading its values threw an exception of JSON; else the
/// exception that is being handled.
[[noreturn]] void refuse_damaged(const std::filesystem::path& path, const std::string& what_to_do, const std::exception& thrown);

/// Reads what the program wrote itself: hands the parsed file to `use`. Where that finds a value missing, or of another kind than it was
/// written as, a data Error names the file and says what to do.
template <class Use>
auto read_own_json(const std::filesystem::path& path, const std::string& what_to_do, const Use& use) {
  const auto json = read_json(path);
  try {
    return use(json);
  } catch (const std::exception& thrown) {
    refuse_damaged(path, what_to_do, thrown);
  }
}

}  // namespace burnish::io
