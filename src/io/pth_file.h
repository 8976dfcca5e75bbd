#pragma once
#include <memory>

#include "io/mapping.h"
#include "io/pth_header.h"
#include "io/tensor_file.h"

namespace burnish::io {

/// A file that torch.save wrote, mapped into memory. No Python is run and no class is made (see PthHeader).
///
/// As a TensorFile it shows the dictionary of tensors that checkpoints hold: the root itself, or what lies under state_dict, model,
/// module, params_ema or params. Tensors of a dictionary in it (an IP-Adapter's "image_proj") are named after it, with a dot.
class PthFile : public TensorFile {
 public:
  /// Opens the file. A data Error names it and what is wrong with it.
  static std::shared_ptr<PthFile> open(const std::filesystem::path& path);

  const PickleValue& root() const { return header_.root(); }
  /// A tensor among the values; a copy only where the file's bytes are not aligned.
  at::Tensor tensor(const PickleValue& value);
  /// Compares the checksum of a tensor's bytes; a data Error when it differs.
  void verify(const PickleValue& value) const { header_.verify(value, mapping_->bytes()); }

  const std::map<std::string, TensorInfo>& tensors() const override { return infos_; }
  const std::map<std::string, std::string>& metadata() const override { return metadata_; }
  const std::filesystem::path& path() const override { return path_; }
  at::Tensor tensor(const std::string& name) override;
  void release(const std::string& name) const override;

 private:
  PthFile() = default;
  void find_tensors();
  void find_tensors(const PickleValue& table, const std::string& prefix);
  std::filesystem::path path_;
  std::shared_ptr<Mapping> mapping_;
  PthHeader header_;
  std::map<std::string, const PickleValue*> named_;
  std::map<std::string, TensorInfo> infos_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace burnish::io
