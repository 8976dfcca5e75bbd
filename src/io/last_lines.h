#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace burnish::io {

/// The last bytes of a text file, from the start of a line, of what stands behind its first `from` bytes; "" where there is none.
std::string last_lines(const std::filesystem::path& file, size_t most_bytes, uint64_t from = 0);

}  // namespace burnish::io
