#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace burnish::io {

/// SHA-256 (FIPS 180-4), fed piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::string_view bytes);
  /// The digest as 64 hexadecimal digits; nothing can be fed afterwards.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256(std::string_view bytes);

/// Returns the hash that git gives the content of a file: the SHA-1 of "blob", its size and its bytes (gitformat-loose(5)), as 40
/// hexadecimal digits. A data Error when the file cannot be read.
std::string git_blob_hash(const std::filesystem::path& path);

/// Names the content of a file: the SHA-256 of the digests of its 16 MiB blocks, which are read and hashed side by side on all
/// threads. A data Error when the file cannot be read.
std::string file_hash(const std::filesystem::path& path);

/// Tells files apart that are meant to differ, at the cost of a megabyte: the SHA-256 of the size and of 16 blocks of 64 KiB spread over
/// the file. A data Error when it cannot be read.
std::string sampled_hash(const std::filesystem::path& path);

/// XXH64 of the xxHash specification: a checksum at memory speed, against damage and not against an adversary.
uint64_t xxh64(std::string_view bytes, uint64_t seed = 0);

/// CRC-32C (Castagnoli's polynomial, RFC 3720 appendix B.4), which TFRecord files carry.
uint32_t crc32c(std::string_view bytes);

}  // namespace burnish::io
