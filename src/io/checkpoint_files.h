#pragma once
#include <functional>

#include "io/safetensors.h"

namespace burnish::io {

/// Picks the files that hold the weights of a component folder from the names in it: what TensorSource::open_folder opens. An index of
/// shards ("….index.json") stands for all that shards_of_index lists. The list is empty when no file holds weights.
std::vector<std::string> weight_files(const std::vector<std::string>& names, const std::vector<std::string>& stems);

/// The names of the files that an index lists, sorted; a data Error when it is none.
std::vector<std::string> shards_of_index(const std::filesystem::path& index);

/// Several files of tensors (safetensors, GGUF, or torch.save's) seen as one table of names. Copies share the open files.
class TensorSource {
 public:
  /// Opens all tensors of `files`; a name that occurs in two of them is a data Error.
  static TensorSource open(const std::vector<std::filesystem::path>& files);
  /// Opens the weights of a component folder: `<stem>.safetensors` or the shards of `<stem>.safetensors.index.json` for the first stem that
  /// is there (also with a `.fp16` or `.bf16` variant), else all its safetensors files, else files of these names in `.bin`, as torch.save
  /// writes it. A shard that is missing, or lacks a tensor that the index promises, is a data Error.
  static TensorSource open_folder(const std::filesystem::path& folder, const std::vector<std::string>& stems);

  /// Makes a source of names, shapes and one dtype alone, without a file. Reading a tensor of it is a std::logic_error.
  static TensorSource of_shapes(const std::string& label, const std::map<std::string, std::vector<int64_t>>& shapes, c10::ScalarType dtype);

  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return where_.contains(name); }
  const TensorInfo& info(const std::string& name) const;
  at::Tensor tensor(const std::string& name) const;
  /// Reads a tensor's codes (TensorFile::codes).
  std::optional<Codes> codes(const std::string& name) const;
  /// Lets the system take back the memory that reading `name` filled (TensorFile::release).
  void release(const std::string& name) const;
  /// The shapes of all tensors by name.
  std::map<std::string, std::vector<int64_t>> shapes() const;
  const std::vector<std::shared_ptr<TensorFile>>& files() const { return files_; }
  const Metadata& metadata() const { return files_.front()->metadata(); }
  int64_t num_bytes() const;

  /// Returns every tensor under the name that `rename` gives it, without those that it gives none (""). Two of one name are a data Error.
  TensorSource renamed(const std::function<std::string(const std::string&)>& rename) const;
  /// Only the names under `prefix`, without it.
  TensorSource below(const std::string& prefix) const;
  /// Returns the source with the tensors of `view`, each in the place of what it had under that name, and without the names in `hidden`.
  TensorSource seen_through(std::shared_ptr<TensorFile> view, const std::vector<std::string>& hidden) const;
  /// Returns the source with those tensors of `other` beside its own whose names it lacks.
  TensorSource joined(const TensorSource& other) const;
  /// Returns the source without the names that start with one of `prefixes`.
  TensorSource without(const std::vector<std::string>& prefixes) const;

 private:
  struct StoredTensor {
    TensorFile* file;
    std::string name;
  };
  const StoredTensor& place(const std::string& name) const;
  std::vector<std::shared_ptr<TensorFile>> files_;
  std::vector<std::shared_ptr<TensorFile>> views_;  ///< what shows tensors of the files in another way
  std::map<std::string, StoredTensor> where_;
};

}  // namespace burnish::io
