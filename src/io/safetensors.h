#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/safetensors_header.h"

namespace burnish::io {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
using Metadata = std::map<std::string, std::string>;

/// A safetensors file, mapped into memory and checked when opened. Tensors are views of the mapping: reading one costs nothing
/// until its bytes are touched, and it keeps the mapping alive.
class SafetensorsFile : public std::enable_shared_from_this<SafetensorsFile> {
 public:
  /// A data Error names the file and what is wrong with it (see parse_header).
  static std::shared_ptr<SafetensorsFile> open(const std::filesystem::path& path);
  ~SafetensorsFile();

  const std::map<std::string, TensorInfo>& tensors() const { return header_.tensors; }
  const Metadata& metadata() const { return header_.metadata; }
  const std::filesystem::path& path() const { return path_; }
  /// A data Error when there is no such tensor.
  at::Tensor tensor(const std::string& name);
  /// Lets the system take back the memory that reading `name` filled. What was written into a tensor of it in place is lost.
  void release(const std::string& name) const;

 private:
  SafetensorsFile() = default;
  std::filesystem::path path_;
  SafetensorsHeader header_;
  char* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  size_t data_offset_ = 0;
};

/// Asks the system to read the bytes of a mapped tensor from disk by the time they are needed, without waiting. A tensor on the CPU that
/// is not mapped stays as it is.
void prefetch(const at::Tensor& tensor);

/// Writes tensors one at a time, atomically: on any failure (a full disk, say) the file that stood there before is unchanged.
/// Tensors may lie on any device and need not be contiguous.
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors, const Metadata& metadata = {});

}  // namespace burnish::io
