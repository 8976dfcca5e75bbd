#include "io/checkpoint_files.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "base/input_error.h"
#include "io/files.h"
#include "io/json.h"

namespace burnish::io {

namespace fs = std::filesystem;

namespace {

/// A header without its file.
class HeaderAlone final : public TensorFile {
 public:
  HeaderAlone(fs::path label, std::map<std::string, TensorInfo> tensors) : label_(std::move(label)), tensors_(std::move(tensors)) {}
  const std::map<std::string, TensorInfo>& tensors() const override { return tensors_; }
  const Metadata& metadata() const override { return metadata_; }
  const fs::path& path() const override { return label_; }
  at::Tensor tensor(const std::string& name) override { throw std::logic_error("there are no numbers of '" + name + "'"); }
  void release(const std::string& /*name*/) const override {}

 private:
  fs::path label_;
  std::map<std::string, TensorInfo> tensors_;
  Metadata metadata_;
};

}  // namespace

TensorSource TensorSource::of_shapes(const std::string& label, const std::map<std::string, std::vector<int64_t>>& shapes,
                                     c10::ScalarType dtype) {
  std::map<std::string, TensorInfo> tensors;
  uint64_t end = 0;
  for (const auto& [name, shape] : shapes) {
    auto begin = end;
    end += static_cast<uint64_t>(c10::multiply_integers(shape)) * c10::elementSize(dtype);
    tensors[name] = {dtype, shape, begin, end};
  }
  TensorSource source;
  auto file = std::make_shared<HeaderAlone>(label, std::move(tensors));
  for (const auto& [name, info] : file->tensors()) source.where_[name] = {file.get(), name};
  source.files_.push_back(std::move(file));
  return source;
}

TensorSource TensorSource::open(const std::vector<fs::path>& files) {
  if (files.empty()) data_error("io", "no safetensors file was named");
  TensorSource source;
  for (const auto& path : files) {
    auto file = open_tensor_file(path);
    for (const auto& [name, info] : file->tensors()) {
      auto [it, fresh] = source.where_.emplace(name, StoredTensor{file.get(), name});
      if (!fresh) data_error("io", "tensor '{}' is both in {} and in {}", name, it->second.file->path().string(), path.string());
    }
    source.files_.push_back(std::move(file));
  }
  return source;
}

static std::map<std::string, std::string> read_index(const fs::path& path) {
  auto index = read_json(path);
  auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) data_error("io", "{} has no weight_map", path.string());
  std::map<std::string, std::string> shards;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string()) data_error("io", "{}: the shard of '{}' is not a file name", path.string(), name);
    shards[name] = shard.get<std::string>();
  }
  return shards;
}

static TensorSource open_index(const fs::path& index_path) {
  std::vector<fs::path> paths;
  for (const auto& shard : shards_of_index(index_path)) {
    auto path = index_path.parent_path() / shard;
    if (!is_there(path)) data_error("io", "{} lists the shard {}, which is not there", index_path.string(), shard);
    paths.push_back(path);
  }
  auto source = TensorSource::open(paths);
  for (const auto& [name, shard] : read_index(index_path)) {
    if (!source.contains(name)) data_error("io", "{} promises tensor '{}' in {}, which does not hold it", index_path.string(), name, shard);
  }
  return source;
}

std::vector<std::string> shards_of_index(const fs::path& index) {
  std::set<std::string> shards;
  for (const auto& [name, shard] : read_index(index)) shards.insert(shard);
  return {shards.begin(), shards.end()};
}

std::vector<std::string> weight_files(const std::vector<std::string>& names, const std::vector<std::string>& stems) {
  auto is_here = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  auto ending = [&](std::string_view end) {
    std::vector<std::string> found;
    std::ranges::copy_if(names, std::back_inserter(found), [&](const std::string& name) { return name.ends_with(end) && name[0] != '.'; });
    std::ranges::sort(found);
    return found;
  };
  for (const auto& stem : stems) {
    for (const char* variant : {"", ".fp16", ".bf16"}) {
      if (auto file = stem + variant + ".safetensors"; is_here(file)) return {file};
      if (auto index = stem + ".safetensors.index" + variant + ".json"; is_here(index)) return {index};
    }
  }
  if (auto files = ending(".safetensors"); !files.empty()) return files;
  for (const auto& stem : stems) {
    if (auto file = stem + ".bin"; is_here(file)) return {file};
    if (auto index = stem + ".bin.index.json"; is_here(index)) return {index};
  }
  return ending(".bin");
}

TensorSource TensorSource::open_folder(const fs::path& folder, const std::vector<std::string>& stems) {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder)) names.push_back(file.path().filename().string());
  auto files = weight_files(names, stems);
  if (files.empty()) data_error("io", "folder {} holds no safetensors files", folder.string());
  if (files[0].ends_with(".json")) return open_index(folder / files[0]);
  std::vector<fs::path> paths;
  for (const auto& file : files) paths.push_back(folder / file);
  return open(paths);
}

std::vector<std::string> TensorSource::names() const {
  std::vector<std::string> all;
  for (const auto& [name, place] : where_) all.push_back(name);
  return all;
}

const TensorSource::StoredTensor& TensorSource::place(const std::string& name) const {
  auto it = where_.find(name);
  if (it == where_.end()) data_error("io", "no tensor '{}' in {}", name, files_.empty() ? "no file" : files_.front()->path().string());
  return it->second;
}

const TensorInfo& TensorSource::info(const std::string& name) const {
  const auto& at = place(name);
  return at.file->tensors().at(at.name);
}

void TensorSource::release(const std::string& name) const {
  const auto& at = place(name);
  at.file->release(at.name);
}

at::Tensor TensorSource::tensor(const std::string& name) const {
  const auto& at = place(name);
  return at.file->tensor(at.name);
}

std::optional<Codes> TensorSource::codes(const std::string& name) const {
  const auto& at = place(name);
  return at.file->codes(at.name);
}

std::map<std::string, std::vector<int64_t>> TensorSource::shapes() const {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, place] : where_) shapes[name] = place.file->tensors().at(place.name).shape;
  return shapes;
}

int64_t TensorSource::num_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, place] : where_) {
    const auto& info = place.file->tensors().at(place.name);
    bytes += static_cast<int64_t>(info.end - info.begin);
  }
  return bytes;
}

TensorSource TensorSource::renamed(const std::function<std::string(const std::string&)>& rename) const {
  TensorSource part;
  part.files_ = files_;
  part.views_ = views_;
  for (const auto& [name, place] : where_) {
    auto ours = rename(name);
    if (!ours.empty() && !part.where_.emplace(ours, place).second)
      data_error("io", "{}: '{}' is there twice, once as '{}'", files_.front()->path().string(), ours, name);
  }
  return part;
}

TensorSource TensorSource::seen_through(std::shared_ptr<TensorFile> view, const std::vector<std::string>& hidden) const {
  auto seen = *this;
  for (const auto& name : hidden) seen.where_.erase(name);
  for (const auto& [name, info] : view->tensors()) seen.where_[name] = {view.get(), name};
  seen.views_.push_back(std::move(view));
  return seen;
}

TensorSource TensorSource::joined(const TensorSource& other) const {
  auto both = *this;
  both.where_.insert(other.where_.begin(), other.where_.end());
  both.files_.insert(both.files_.end(), other.files_.begin(), other.files_.end());
  both.views_.insert(both.views_.end(), other.views_.begin(), other.views_.end());
  return both;
}

TensorSource TensorSource::below(const std::string& prefix) const {
  return renamed([&](const std::string& name) { return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string(); });
}

TensorSource TensorSource::without(const std::vector<std::string>& prefixes) const {
  auto rest = *this;
  std::erase_if(rest.where_, [&](const auto& item) {
    return std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& p) { return item.first.starts_with(p); });
  });
  return rest;
}

}  // namespace burnish::io
