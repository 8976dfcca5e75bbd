#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string_view>

namespace burnish::io {

/// A file's bytes in memory, as far as they are read. Tensors of them keep them there.
class Mapping : public std::enable_shared_from_this<Mapping> {
 public:
  /// Maps a file. A data Error for one that cannot be read, or has fewer than `least` bytes: "too short for a `kind` file".
  static std::shared_ptr<Mapping> open(const std::filesystem::path& path, uint64_t least, std::string_view kind);
  ~Mapping();

  std::string_view bytes() const { return {bytes_, size_}; }
  /// A tensor of the bytes from `begin` to `end`, of these strides or, without them, contiguous; a copy only where the file's bytes are
  /// not aligned.
  at::Tensor tensor(uint64_t begin, uint64_t end, at::IntArrayRef shape, c10::ScalarType dtype, at::OptionalIntArrayRef strides = {});
  /// Lets the system take back the pages that lie between two bytes. What was written into them in place is lost.
  void release(uint64_t begin, uint64_t end) const;

 private:
  Mapping(char* bytes, uint64_t size) : bytes_(bytes), size_(size) {}
  char* bytes_;
  uint64_t size_;
};

}  // namespace burnish::io
