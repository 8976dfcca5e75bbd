#include "io/pth_file.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/error.h"
#include "io/files.h"
#include "io/safetensors.h"

namespace burnish::io {

std::shared_ptr<TensorFile> open_tensor_file(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") return SafetensorsFile::open(path);
  return PthFile::open(path);
}

bool is_tensor_file(const std::filesystem::path& path) {
  auto ending = path.extension();
  return ending == ".safetensors" || ending == ".pth" || ending == ".pt" || ending == ".bin" || ending == ".ckpt";
}

std::shared_ptr<PthFile> PthFile::open(const std::filesystem::path& path) {
  InputFile file(path);
  auto size = file.size();
  if (size < 4) data_error("io", "{} has {} bytes: too short for a torch file", path.string(), size);
  std::shared_ptr<PthFile> opened(new PthFile);
  opened->path_ = path;
  // Private and writable: an in-place operation on a tensor changes this process's copy, never the file.
  void* mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.descriptor(), 0);
  if (mapping == MAP_FAILED && errno == ENOMEM) throw std::bad_alloc();
  if (mapping == MAP_FAILED) data_error("io", "cannot map {}: {}", path.string(), std::strerror(errno));
  opened->mapping_ = static_cast<char*>(mapping);
  opened->mapped_bytes_ = size;
  opened->header_ = PthHeader::parse({opened->mapping_, size}, path.string());
  opened->find_tensors();
  return opened;
}

PthFile::~PthFile() {
  if (mapping_) munmap(mapping_, mapped_bytes_);
}

void PthFile::find_tensors() {
  const auto* table = &header_.root();
  for (const char* key : {"state_dict", "model", "module", "params_ema", "params"}) {
    const auto* inner = header_.root().get(key);
    if (inner && inner->kind == PickleValue::Kind::dict) {
      table = inner;
      break;
    }
  }
  find_tensors(*table, "");
}

void PthFile::find_tensors(const PickleValue& table, const std::string& prefix) {
  for (size_t i = 0; table.kind == PickleValue::Kind::dict && i + 1 < table.items.size(); i += 2) {
    const auto &key = *table.items[i], &value = *table.items[i + 1];
    if (key.kind != PickleValue::Kind::text) continue;
    auto name = prefix + key.text;
    if (PthHeader::is_tensor(value)) {
      auto place = header_.tensor(value);
      named_[name] = &value;
      infos_[name] = {place.dtype, place.shape, place.begin, place.end};
    } else if (prefix.empty()) {
      find_tensors(value, name + ".");
    }
  }
}

at::Tensor PthFile::tensor(const PickleValue& value) {
  auto place = header_.tensor(value);
  auto options = at::TensorOptions().dtype(place.dtype);
  char* data = mapping_ + place.begin;
  if (place.begin == place.end) return at::empty(place.shape, options);
  if (reinterpret_cast<uintptr_t>(data) % c10::elementSize(place.dtype) == 0)
    return at::from_blob(
        data, place.shape, place.strides, [self = shared_from_this()](void*) {}, options);
  auto copy = at::empty_strided(place.shape, place.strides, options);
  std::memcpy(copy.data_ptr(), data, place.end - place.begin);
  return copy;
}

at::Tensor PthFile::tensor(const std::string& name) {
  auto it = named_.find(name);
  if (it == named_.end()) data_error("io", "{} holds no tensor '{}'", path_.string(), name);
  return tensor(*it->second);
}

void PthFile::release(const std::string& name) const {
  auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto& info = infos_.at(name);
  auto begin = (info.begin + page - 1) / page * page, end = info.end / page * page;
  if (begin < end) madvise(mapping_ + begin, end - begin, MADV_DONTNEED);
}

}  // namespace burnish::io
