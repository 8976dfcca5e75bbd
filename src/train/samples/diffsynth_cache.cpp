#include "train/samples/diffsynth_cache.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/text.h"
#include "io/hash.h"
#include "io/pth_file.h"

namespace burnish::train {

namespace fs = std::filesystem;

namespace {

using Kind = io::PickleValue::Kind;

/// Shorter names first, so that 10.pth follows 9.pth.
bool by_number(const fs::path& a, const fs::path& b) {
  auto rank = [](const fs::path& path) {
    auto process = path.parent_path().string(), name = path.filename().string();
    return std::tuple(process.size(), process, name.size(), name);
  };
  return rank(a) < rank(b);
}

/// The dictionaries of a file, later ones winning: shared, then those of the positive prompt.
std::vector<const io::PickleValue*> dictionaries(const io::PthFile& file) {
  const auto& root = file.root();
  bool triple = (root.kind == Kind::tuple || root.kind == Kind::list) && root.items.size() >= 2 && root.items[0]->kind == Kind::dict &&
                root.items[1]->kind == Kind::dict;
  if (!triple)
    data_error("train", "{} is not a sample of a DiffSynth-Studio cache: it holds no pair of dictionaries", file.path().string());
  return {root.items[1], root.items[0]};
}

const io::PickleValue* find(const std::vector<const io::PickleValue*>& tables, const std::string& name) {
  for (const auto* table : tables) {
    if (const auto* value = table->get(name)) return value;
  }
  return nullptr;
}

/// A number or text of a file as a metadata column, a number also where it is a tensor; null for anything else.
nlohmann::json column_of(io::PthFile& file, const io::PickleValue& value) {
  if (io::PthHeader::is_tensor(value)) {
    file.verify(value);
    const auto tensor = file.tensor(value);
    return tensor.numel() == 1 ? nlohmann::json(tensor.item<double>()) : nlohmann::json();
  }
  switch (value.kind) {
    case Kind::integer: return value.integer;
    case Kind::real: return value.real;
    case Kind::text: return value.text;
    default: return nullptr;
  }
}

struct Read {
  nlohmann::json columns = nlohmann::json::object();
  Extent extent;
  double frame_rate = 0;
  pipeline::Values values;
  std::map<std::string, std::string> keys;
};

/// The tensors of a value, a tensor, a list of them or such a list of one sample, with their checksums compared; none of any other value.
std::vector<at::Tensor> tensors_of(io::PthFile& file, const io::PickleValue* value) {
  std::vector<at::Tensor> tensors;
  const auto is_list = [](const io::PickleValue& item) { return item.kind == Kind::list || item.kind == Kind::tuple; };
  if (value != nullptr && is_list(*value) && value->items.size() == 1 && is_list(*value->items[0])) value = value->items[0];
  if (value == nullptr) return tensors;
  const auto take = [&](const io::PickleValue& item) {
    file.verify(item);
    tensors.push_back(file.tensor(item).contiguous());
  };
  if (io::PthHeader::is_tensor(*value)) {
    take(*value);
  } else if (is_list(*value)) {
    for (const auto* item : value->items) {
      if (!io::PthHeader::is_tensor(*item)) return {};
      take(*item);
    }
  }
  return tensors;
}

std::string key_of(std::string_view bytes, const std::string& seed) {
  return fmt::format("{:016x}{:016x}", io::xxh64(bytes, io::xxh64(seed)), io::xxh64(bytes, io::xxh64(seed, 1)));
}

/// A key made of contents: of a tensor's, or of those of a list.
std::string key_of(const pipeline::Value& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
    auto shape = fmt::format("{}|{}", io::safetensors_dtype(tensor->scalar_type()), fmt::join(tensor->sizes(), ","));
    return key_of({static_cast<const char*>(tensor->const_data_ptr()), tensor->nbytes()}, shape);
  }
  std::string keys;
  for (const auto& tensor : std::get<pipeline::TensorLists>(value).at(0)) keys += key_of(pipeline::Value(tensor));
  return key_of(keys, "list");
}

using Theirs = std::map<std::string, models::DiffsynthValue>;

pipeline::Value value_of(const fs::path& path, const std::string& name, const Theirs& theirs, const models::DiffsynthValue::Find& find) {
  auto found = theirs.find(name);
  auto tensors = found == theirs.end() ? std::vector<at::Tensor>() : find(found->second.name);
  if (tensors.empty()) {
    if (found != theirs.end() && found->second.of_references) return pipeline::TensorLists{{}};
    data_error("train", "{} holds no {}, which this run reads{}", path.string(),
               found == theirs.end() ? name : fmt::format("'{}' ({})", found->second.name, name),
               name == "latents_mean" ? ": such a cache holds one latent a picture, so take --latents mean" : "");
  }
  if (!found->second.make) return tensors.front();
  return models::naming(path.string(), [&] { return found->second.make(find); });
}

/// A sample with reference pictures is not trained from as if it had none.
void check_references_read(const fs::path& path, const std::vector<std::string>& carried, const Theirs& theirs,
                           const std::vector<const io::PickleValue*>& tables) {
  for (const auto& [name, their] : theirs) {
    const auto* value = their.of_references && !contains(carried, name) ? find(tables, their.name) : nullptr;
    if (value != nullptr && value->kind != Kind::none)
      config_error("train", "{} holds reference pictures ('{}'), which this run does not read; give the extra_inputs that it was made with",
                   path.string(), their.name);
  }
}

Read read(const fs::path& path, const std::vector<std::string>& carried, const Theirs& theirs, const std::vector<std::string>& columns) {
  auto file = io::PthFile::open(path);
  auto tables = dictionaries(*file);
  check_references_read(path, carried, theirs, tables);
  Read sample;
  const auto find_tensors = [&](const std::string& name) { return tensors_of(*file, find(tables, name)); };
  for (const auto& name : carried) {
    sample.values[name] = value_of(path, name, theirs, find_tensors);
    sample.keys[name] = key_of(sample.values[name]);
  }
  const auto *height = find(tables, "height"), *width = find(tables, "width");
  if (!height || !width || height->kind != Kind::integer || width->kind != Kind::integer)
    data_error("train", "{} does not say how high and wide its picture is", path.string());
  sample.extent = {.height = height->integer, .width = width->integer};
  if (const auto* frames = find(tables, "num_frames"); frames && frames->kind == Kind::integer) sample.extent.frames = frames->integer;
  if (const auto* layers = find(tables, "layer_num"); layers && layers->kind == Kind::integer) sample.extent.frames = layers->integer + 1;
  if (const auto* rate = find(tables, kRateOfFrames); rate && rate->kind == Kind::integer)
    sample.frame_rate = static_cast<double>(rate->integer);
  else if (rate && rate->kind == Kind::real) sample.frame_rate = rate->real;
  if (!(sample.frame_rate >= 0)) data_error("train", "{} says that its clip has {} frames a second", path.string(), sample.frame_rate);
  for (const auto& name : columns) {
    const auto* value = find(tables, name);
    if (value == nullptr) continue;
    if (auto column = column_of(*file, *value); !column.is_null()) sample.columns[name] = std::move(column);
  }
  return sample;
}

}  // namespace

std::vector<fs::path> diffsynth_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& item : fs::recursive_directory_iterator(folder, ignored)) {
    if (item.path().extension() == ".pth" && item.is_regular_file(ignored)) files.push_back(item.path());
  }
  std::sort(files.begin(), files.end(), by_number);
  return files;
}

Listed import_diffsynth(const fs::path& folder, const std::vector<std::string>& carried,
                        const std::map<std::string, models::DiffsynthValue>& theirs, const std::vector<std::string>& columns,
                        data::Cache& cache) {
  auto files = diffsynth_files(folder);
  if (files.empty()) data_error("train", "{} holds no .pth files of a DiffSynth-Studio cache", folder.string());
  std::map<std::string, data::CacheSection*> sections;
  for (const auto& name : carried)
    sections[name] = &cache.section("imported_" + name, {{"from", "DiffSynth-Studio"}, {"stored", {name}}, {"version", 1}});
  Listed listed;
  listed.samples.has_captions = false;
  Progress progress("import", std::ssize(files));
  constexpr int64_t kAtOnce = 16;
  for (int64_t first = 0; first < std::ssize(files); first += kAtOnce) {
    if (interrupted()) throw Error(Exit::interrupted, "train", "interrupted while importing; give the same command again");
    auto last = std::min(first + kAtOnce, std::ssize(files));
    std::vector<Read> read_files(static_cast<size_t>(last - first));
    at::parallel_for(first, last, 1, [&](int64_t from, int64_t to) {
      for (auto i = from; i < to; ++i)
        read_files[static_cast<size_t>(i - first)] = read(files[static_cast<size_t>(i)], carried, theirs, columns);
    });
    for (auto& sample : read_files) {
      auto row = std::ssize(listed.samples.list);
      CacheSlots entries;
      for (auto& [name, value] : sample.values) {
        const auto& key = sample.keys.at(name);
        auto* section = sections.at(name);
        section->verify({key});
        data::Tensors entry;
        put(entry, name, value);
        section->add(key, entry);
        entries[name] = {section, key};
      }
      listed.samples.list.push_back(
          {.number = row, .extent = sample.extent, .row = {.cells = std::move(sample.columns)}, .frame_rate = sample.frame_rate});
      listed.kept.by_row[row] = {std::move(entries)};
    }
    progress.update(last);
  }
  for (auto& [name, section] : sections) section->flush();
  return listed;
}

}  // namespace burnish::train
