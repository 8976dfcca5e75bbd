#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/files.h"
#include "io/mapping.h"
#include "io/safetensors_header.h"
#include "io/tensor_file.h"

namespace burnish::io {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
using Metadata = std::map<std::string, std::string>;

/// An open safetensors file, whose tensors are views of its mapping.
class SafetensorsFile : public TensorFile {
 public:
  /// Opens the file. A data Error names it and what is wrong with it (see parse_header).
  static std::shared_ptr<SafetensorsFile> open(const std::filesystem::path& path);

  const std::map<std::string, TensorInfo>& tensors() const override { return header_.tensors; }
  const Metadata& metadata() const override { return header_.metadata; }
  const std::filesystem::path& path() const override { return path_; }
  at::Tensor tensor(const std::string& name) override;
  void release(const std::string& name) const override;

 private:
  SafetensorsFile() = default;
  std::filesystem::path path_;
  SafetensorsHeader header_;
  std::shared_ptr<Mapping> mapping_;
  size_t data_offset_ = 0;
};

/// Asks the system to read the bytes of a mapped tensor from disk by the time they are needed, without waiting. A tensor on the CPU that
/// is not mapped stays as it is.
void prefetch(const at::Tensor& tensor);

/// A tensor that a safetensors file is to hold: its name, dtype and shape.
struct TensorSpec {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> shape = {};
  uint64_t num_bytes() const;
};

/// A safetensors file that is written tensor by tensor, in any order, so that no more than one of them has to be in memory. It appears
/// under its name when it is complete (AtomicFile).
class SafetensorsWriter {
 public:
  /// Opens the file to write. A data Error for a name that is given twice.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& specs, const Metadata& metadata = {});
  /// The tensor may lie on any device and need not be contiguous. std::logic_error when it is not what its spec says.
  void write(const std::string& name, const at::Tensor& tensor);
  /// Throws std::logic_error unless every tensor was written.
  void commit();

 private:
  struct ReservedBytes {
    TensorSpec spec;
    uint64_t begin = 0;  ///< where the tensor's bytes begin in the file
    bool written = false;
  };
  std::map<std::string, ReservedBytes> places_;
  AtomicFile file_;
};

/// Returns the SHA-256, as 64 hexadecimal digits, of tensors' bytes in the order in which the writer lays them: of what stands behind the
/// header in the file that holds them.
std::string tensors_sha256(const NamedTensors& tensors);

/// Writes tensors one at a time, atomically: on any failure (a full disk, say) the file that stood there before is unchanged.
/// Tensors may lie on any device and need not be contiguous.
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors, const Metadata& metadata = {});

}  // namespace burnish::io
