#include "io/gguf_file.h"

#include "base/input_error.h"

namespace burnish::io {

std::shared_ptr<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  std::shared_ptr<GgufFile> opened(new GgufFile);
  opened->path_ = path;
  opened->mapping_ = Mapping::open(path, 4, "GGUF");
  opened->header_ = GgufHeader::parse(opened->mapping_->bytes(), path.string());
  return opened;
}

at::Tensor GgufFile::tensor(const std::string& name) {
  auto it = header_.tensors.find(name);
  if (it == header_.tensors.end()) data_error("io", "{} holds no tensor '{}'", path_.string(), name);
  const auto& info = it->second;
  return mapping_->tensor(info.begin, info.end, info.shape, info.dtype);
}

void GgufFile::release(const std::string& name) const {
  auto it = header_.tensors.find(name);
  if (it != header_.tensors.end()) mapping_->release(it->second.begin, it->second.end);
}

}  // namespace burnish::io
