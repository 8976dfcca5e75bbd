#include "memory/mapped_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace burnish::memory {

namespace {

constexpr uintptr_t kSector = 4096;    // of places, lengths and memory of reads past the cache: what every disk takes
constexpr uintptr_t kPiece = 4 << 20;  // that is read at once

uintptr_t address_of(const at::Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()); }

}  // namespace

void advise(const at::Tensor& mapped, int advice) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = address_of(mapped), first = begin / page * page;
  ::madvise(reinterpret_cast<void*>(first), begin + mapped.nbytes() - first, advice);  // whether it is taken is no matter
}

/// Addresses behind which a file lies.
class MappedReader::Mapping {
 public:
  /// Finds the mapping around `address`, by /proc/self/maps: "begin-end rwxp offset device inode path" (proc_pid_maps(5)).
  explicit Mapping(uintptr_t address) : begin_(address), end_(address) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      std::istringstream words(line);
      uintptr_t begin = 0, end = 0;
      char dash = 0;
      std::string rights, device, inode, path;
      words >> std::hex >> begin >> dash >> end >> rights >> offset_ >> device >> inode >> std::ws;
      if (address < begin || address >= end) continue;
      std::getline(words, path);
      begin_ = begin;
      end_ = end;
      if (path.starts_with('/')) descriptor_ = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
      return;
    }
  }
  ~Mapping() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool has(uintptr_t address) const { return address >= begin_ && address < end_; }
  bool goes_past_cache() const { return descriptor_ >= 0; }

  /// Reads [begin, end) of its addresses by way of `buffer`; false where the file system does not.
  bool read_past_cache(char* to, uintptr_t begin, uintptr_t end, char* buffer) const {
    const auto first = begin / kSector * kSector, wanted = (end - first + kSector - 1) / kSector * kSector;
    uintptr_t count = 0;
    while (first + count < end) {
      const auto got = ::pread(descriptor_, buffer + count, wanted - count, static_cast<off_t>(offset_ + (first - begin_) + count));
      if (got <= 0) return false;
      count += static_cast<uintptr_t>(got);
    }
    std::memcpy(to, buffer + (begin - first), end - begin);
    return true;
  }

 private:
  uintptr_t begin_, end_;
  uintptr_t offset_ = 0;  ///< of begin in the file
  int descriptor_ = -1;
};

namespace {

/// Tells whether the system has all pages of [begin, end) in its cache; it says so too where it does not tell.
bool is_cached(uintptr_t begin, uintptr_t end) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)), first = begin / page * page;
  std::vector<unsigned char> pages((end - first + page - 1) / page);
  if (::mincore(reinterpret_cast<void*>(first), end - first, pages.data()) != 0) return true;
  return std::ranges::all_of(pages, [](unsigned char of_page) { return (of_page & 1) != 0; });
}

}  // namespace

MappedReader::MappedReader() : buffer_(static_cast<char*>(std::aligned_alloc(kSector, kPiece + kSector)), &std::free) {}
MappedReader::~MappedReader() = default;

MappedReader::Mapping& MappedReader::mapping_of(const at::Tensor& mapped) {
  const auto address = address_of(mapped);
  const auto found = std::ranges::find_if(mappings_, [&](const auto& mapping) { return mapping->has(address); });
  return found != mappings_.end() ? **found : *mappings_.emplace_back(std::make_unique<Mapping>(address));
}

void MappedReader::expect(const at::Tensor& mapped) {
  if (!mapping_of(mapped).goes_past_cache() || !read_before_.contains(address_of(mapped))) advise(mapped, MADV_WILLNEED);
}

void MappedReader::read(const at::Tensor& to, const at::Tensor& mapped) {
  const auto& mapping = mapping_of(mapped);
  const auto begin = address_of(mapped), end = begin + mapped.nbytes();
  auto* out = static_cast<char*>(to.data_ptr());
  for (uintptr_t at = begin, next = at; at < end; at = next) {
    next = std::min(end, (at / kPiece + 1) * kPiece);
    const bool is_first = read_before_.insert(at).second;
    if (is_first || !mapping.goes_past_cache() || is_cached(at, next) ||
        !mapping.read_past_cache(out + (at - begin), at, next, buffer_.get()))
      std::memcpy(out + (at - begin), reinterpret_cast<const void*>(at), next - at);
  }
  advise(mapped, MADV_DONTNEED);
}

}  // namespace burnish::memory
