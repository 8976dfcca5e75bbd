#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

namespace burnish::memory {

/// Tells the system what it may do with the pages of a mapped tensor, as madvise(2) has it.
void advise(const at::Tensor& mapped, int advice);

/// Copies tensors in mapped files, and gives their pages back. They are read through the system's cache, asked for ahead; what has been
/// read before and is not there any more is read past it (O_DIRECT). So a file that has room in the cache stays there, and of one that has
/// not a part does, where reading through the cache in turns finds none and pushes out what else waits there. Where a file system reads
/// nothing past its cache, all goes through it.
class MappedReader {
 public:
  MappedReader();
  ~MappedReader();
  MappedReader(const MappedReader&) = delete;
  MappedReader& operator=(const MappedReader&) = delete;

  /// Announces what is read soon, so that what goes through the cache is on its way.
  void expect(const at::Tensor& mapped);
  /// `to` is in main memory and has as many bytes.
  void read(const at::Tensor& to, const at::Tensor& mapped);

 private:
  class Mapping;
  Mapping& mapping_of(const at::Tensor& mapped);

  std::vector<std::unique_ptr<Mapping>> mappings_;  ///< the files that were read
  std::unordered_set<uintptr_t> read_before_;       ///< pieces, by their addresses
  std::unique_ptr<char, void (*)(void*)> buffer_;   ///< aligned, as reads past the cache have to be
};

}  // namespace burnish::memory
