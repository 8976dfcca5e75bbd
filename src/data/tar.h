#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace burnish::data {

/// A regular file in a tar archive, whose bytes lie in it as they are.
struct TarMember {
  std::string name;
  uint64_t offset = 0, size = 0;
};

/// The members of an archive (ustar, GNU or pax) in its order. A data Error for what is no archive, is compressed or truncated.
std::vector<TarMember> read_tar(const std::filesystem::path& path);

/// All bytes of a member of an archive; a data Error when they cannot be read.
std::string read_member(const std::filesystem::path& archive, const TarMember& member);

}  // namespace burnish::data
