#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "io/safetensors_header.h"

namespace burnish::io {

/// A file of named tensors, mapped into memory and checked when opened. Tensors are views of the mapping where the file allows it: reading
/// one costs nothing until its bytes are touched, and it keeps the mapping alive.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  virtual const std::map<std::string, TensorInfo>& tensors() const = 0;
  virtual const std::map<std::string, std::string>& metadata() const = 0;
  virtual const std::filesystem::path& path() const = 0;
  /// Reads a tensor. A data Error when there is no such tensor.
  virtual at::Tensor tensor(const std::string& name) = 0;
  /// Reads a tensor as its codes, row by row; nothing where it does not lie in its file as such.
  virtual std::optional<Codes> codes(const std::string& /*name*/) { return std::nullopt; }
  /// Lets the system take back the memory that reading `name` filled. What was written into a tensor of it in place is lost.
  virtual void release(const std::string& name) const = 0;
};

/// Opens a safetensors file, a GGUF file, or one that torch.save wrote (.pth, .pt, .bin, .ckpt), by its ending.
std::shared_ptr<TensorFile> open_tensor_file(const std::filesystem::path& path);

/// Tells whether a file of this name can hold tensors.
bool is_tensor_file(const std::filesystem::path& path);

}  // namespace burnish::io
