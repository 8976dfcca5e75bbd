#pragma once
#include <functional>

#include "io/safetensors.h"

namespace burnish::io {

/// Of the names of the files in a component folder, those that hold its weights: what TensorSource::open_folder opens. An index of shards
/// ("….index.json") stands for all that shards_of_index lists. None when no file does.
std::vector<std::string> weight_files(const std::vector<std::string>& names, const std::vector<std::string>& stems);

/// The names of the files that an index lists, sorted; a data Error when it is none.
std::vector<std::string> shards_of_index(const std::filesystem::path& index);

/// Several files of tensors (safetensors, or torch.save's) seen as one table of names. Copies share the open files.
class TensorSource {
 public:
  /// All tensors of `files`; a name that occurs in two of them is a data Error.
  static TensorSource open(const std::vector<std::filesystem::path>& files);
  /// The weights of a component folder: `<stem>.safetensors` or the shards of `<stem>.safetensors.index.json` for the first stem that
  /// is there (also with a `.fp16` or `.bf16` variant), else all its safetensors files, else the same with `.bin`, as torch.save writes it.
  /// A shard that is missing, or lacks a tensor that the index promises, is a data Error.
  static TensorSource open_folder(const std::filesystem::path& folder, const std::vector<std::string>& stems);

  /// What a file of these tensors would say of itself: names, shapes and one dtype. Reading a tensor of it is a std::logic_error.
  static TensorSource of_shapes(const std::string& label, const std::map<std::string, std::vector<int64_t>>& shapes, c10::ScalarType dtype);

  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return where_.contains(name); }
  const TensorInfo& info(const std::string& name) const;
  at::Tensor tensor(const std::string& name) const;
  /// TensorFile::release.
  void release(const std::string& name) const;
  /// Shapes by name.
  std::map<std::string, std::vector<int64_t>> shapes() const;
  const std::vector<std::shared_ptr<TensorFile>>& files() const { return files_; }
  const Metadata& metadata() const { return files_.front()->metadata(); }
  int64_t num_bytes() const;

  /// Every tensor under the name that `rename` gives it, without those that it gives none (""). Two of one name are a data Error.
  TensorSource renamed(const std::function<std::string(const std::string&)>& rename) const;
  /// Only the names under `prefix`, without it.
  TensorSource below(const std::string& prefix) const;
  /// Without the names that start with one of `prefixes`.
  TensorSource without(const std::vector<std::string>& prefixes) const;

 private:
  struct Place {
    TensorFile* file;
    std::string name;
  };
  const Place& place(const std::string& name) const;
  std::vector<std::shared_ptr<TensorFile>> files_;
  std::map<std::string, Place> where_;
};

}  // namespace burnish::io
