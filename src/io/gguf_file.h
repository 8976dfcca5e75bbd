#pragma once
#include "io/gguf_header.h"
#include "io/mapping.h"
#include "io/tensor_file.h"

namespace burnish::io {

/// A GGUF file, mapped into memory. Tensors in blocks are shown as the bytes that they are (GgufHeader).
class GgufFile : public TensorFile {
 public:
  /// Opens the file. A data Error names it and what is wrong with it.
  static std::shared_ptr<GgufFile> open(const std::filesystem::path& path);

  const std::map<std::string, TensorInfo>& tensors() const override { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const override { return header_.metadata; }
  const std::filesystem::path& path() const override { return path_; }
  at::Tensor tensor(const std::string& name) override;
  void release(const std::string& name) const override;

 private:
  GgufFile() = default;
  std::filesystem::path path_;
  GgufHeader header_;
  std::shared_ptr<Mapping> mapping_;
};

}  // namespace burnish::io
