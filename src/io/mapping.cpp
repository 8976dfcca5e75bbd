#include "io/mapping.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/input_error.h"
#include "io/files.h"

namespace burnish::io {

std::shared_ptr<Mapping> Mapping::open(const std::filesystem::path& path, uint64_t least, std::string_view kind) {
  InputFile file(path);
  if (file.size() < least) data_error("io", "{} has {} bytes: too short for a {} file", path.string(), file.size(), kind);
  // Private and writable: an in-place operation on a loaded weight changes this process's copy, never the file.
  void* mapping = mmap(nullptr, file.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.descriptor(), 0);
  if (mapping == MAP_FAILED && errno == ENOMEM) throw std::bad_alloc();
  if (mapping == MAP_FAILED) data_error("io", "cannot map {}: {}", path.string(), std::strerror(errno));
  return std::shared_ptr<Mapping>(new Mapping(static_cast<char*>(mapping), file.size()));
}

Mapping::~Mapping() { munmap(bytes_, size_); }

at::Tensor Mapping::tensor(uint64_t begin, uint64_t end, at::IntArrayRef shape, c10::ScalarType dtype, at::OptionalIntArrayRef strides) {
  auto options = at::TensorOptions().dtype(dtype);
  if (begin == end) return at::empty(shape, options);
  char* data = bytes_ + begin;
  auto keep = [self = shared_from_this()](void*) {};
  if (reinterpret_cast<uintptr_t>(data) % c10::elementSize(dtype) == 0)
    return strides ? at::from_blob(data, shape, *strides, keep, options) : at::from_blob(data, shape, keep, options);
  auto copy = strides ? at::empty_strided(shape, *strides, options) : at::empty(shape, options);
  std::memcpy(copy.data_ptr(), data, end - begin);
  return copy;
}

void Mapping::release(uint64_t begin, uint64_t end) const {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto first = (begin + page - 1) / page * page, last = end / page * page;
  if (first < last) madvise(bytes_ + first, last - first, MADV_DONTNEED);
}

}  // namespace burnish::io
