#include "convert/model.h"

#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "base/choice.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "convert/written_component.h"
#include "io/files.h"
#include "io/json.h"
#include "loras/file_metadata.h"
#include "loras/merged.h"
#include "models/files/coding.h"
#include "models/files/loading.h"
#include "models/files/pipeline_index.h"
#include "models/model/companion_files.h"
#include "models/model/own_file.h"
#include "models/parts/vocabulary.h"
#include "models/registry.h"

namespace burnish::convert {

const std::vector<std::string>& weight_formats() {
  static const std::vector<std::string> kFormats{"keep",     "none", "fp8_tensor",   "fp8",  "fp8_plain",
                                                 "fp8_e5m2", "int8", "int8_convrot", "nvfp4"};
  return kFormats;
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kInterruptAnswer =
    "interrupted: what was written is removed after this tensor; Ctrl-C again ends the program at once";

NumberFormat number_format(const Options& o) {
  if (!contains(weight_formats(), o.weight_format)) unknown_choice("convert", "weight_format", o.weight_format, weight_formats());
  NumberFormat format;
  if (o.dtype != "keep") format.dtype = parse_dtype(o.dtype);
  format.keeps_codes = o.weight_format != "none";
  if (o.weight_format == "nvfp4") format.weights = kNvfp4;
  else if (o.weight_format != "keep" && o.weight_format != "none") format.weights = quant::parse_format(o.weight_format);
  return format;
}

/// A file of the model on its way to the disk: the components in it, and what else it holds.
struct WrittenFile {
  fs::path path;
  std::vector<std::unique_ptr<WrittenComponent>> components;
  io::NamedTensors others = {};
  io::Metadata metadata = {{"format", "pt"}};

  std::vector<io::TensorSpec> specs() const {
    std::vector<io::TensorSpec> all;
    for (const auto& component : components) {
      for (auto& spec : component->specs()) all.push_back(std::move(spec));
    }
    for (const auto& [name, tensor] : others) all.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
    return all;
  }

  uint64_t num_bytes() const {
    uint64_t bytes = 0;
    for (const auto& spec : specs()) bytes += spec.num_bytes();
    return bytes;
  }
};

void write(const WrittenFile& file, Progress& bar, int64_t& done) {
  io::SafetensorsWriter writer(file.path, file.specs(), file.metadata);
  for (const auto& component : file.components) {
    component->make([&](const std::string& name, const at::Tensor& tensor) {
      if (interrupted()) throw Error(Exit::interrupted, "convert", "interrupted; nothing was written");
      writer.write(name, tensor);
      bar.update(++done);
    });
  }
  for (const auto& [name, tensor] : file.others) writer.write(name, tensor);
  writer.commit();
}

void write_all(const std::vector<WrittenFile>& files, const fs::path& out) {
  uint64_t bytes = 0;
  int64_t num_tensors = 0;
  for (const auto& file : files) {
    bytes += file.num_bytes();
    num_tensors += std::ssize(file.specs());
  }
  info("{}: {} tensors, {}", out.string(), num_tensors, human_bytes(static_cast<double>(bytes)));
  io::check_space(out, bytes);
  Progress bar("convert", num_tensors);
  int64_t done = 0;
  for (const auto& file : files) write(file, bar, done);
}

std::vector<std::string> component_names(const models::Model& model) {
  std::vector<std::string> names;
  for (const auto& component : model.components().list()) names.push_back(component.name);
  return names;
}

/// Names the unread tensors of files by themselves, or of those in a pipeline's folders.
std::vector<std::string> unread_names(const models::ModelFiles& files, const models::Model& model, bool in_folders) {
  std::vector<std::string> names;
  for (const auto& entry : files.entries) {
    if (entry.tensors && entry.component.empty() != in_folders)
      std::ranges::move(models::unread_tensors(entry, model.components()).names(), std::back_inserter(names));
  }
  return names;
}

/// Adds what the files of a pipeline's folder hold beside the components that are read of them to the file that is written: a vision tower,
/// a head, counters, which other programs look for there.
void add_unread(const models::Model& model, WrittenFile& file) {
  std::set<const models::ModelEntry*> added;
  for (const auto& component : file.components) {
    const auto* entry = model.components().source(component->component()).entry;
    if (entry->component.empty() || !added.insert(entry).second) continue;
    const auto unread = models::unread_tensors(*entry, model.components());
    for (const auto& name : unread.names()) file.others.emplace_back(name, unread.tensor(name));
  }
}

/// Puts the vocabularies that files of text encoders carry, or that programs look for in them, into the file that is written.
void add_vocabularies(const models::Model& model, WrittenFile& file) {
  for (const auto& component : file.components) {
    const auto* recipe = model.components().find(component->component());
    const auto* entry = model.components().source(component->component()).entry;
    if (!recipe->tokenizer || entry == nullptr) continue;
    if (auto name = models::vocabulary_in(*entry); !name.empty()) {
      file.others.emplace_back(component->prefix() + name.substr(name.rfind('.') + 1), entry->tensors->tensor(name));
    } else if (auto beside = models::vocabulary_beside(model, component->component())) {
      auto [own_name, tensor] = models::vocabulary_tensor(*beside);
      file.others.emplace_back(component->prefix() + own_name, tensor);
    }
  }
}

/// Experts of a model have tensors of equal names.
void check_names_differ(const WrittenFile& file) {
  std::map<std::string, std::string> of;
  for (const auto& component : file.components) {
    for (const auto& spec : component->specs()) {
      const auto [other, is_new] = of.emplace(spec.name, component->component());
      if (!is_new)
        config_error("convert",
                     "one file cannot hold {} and {}, whose tensors have the same names ('{}' first); convert each into a file of its own, "
                     "or all into a folder (an output path without .safetensors)",
                     other->second, component->component(), spec.name);
    }
  }
}

/// One file with all components, or with one alone, whose names then have no prefix.
std::string write_single(const Options& o, const models::ModelFiles& files, const models::Model& model, const NumberFormat& format) {
  constexpr int64_t kLargestExtra = 1 << 20;
  auto names = component_names(model);
  WrittenFile file{.path = o.paths.back(), .components = {}};
  for (const auto& name : names) {
    auto spelled = model.names().of(name).single_file;
    if (names.size() == 1) spelled.prefix = "";
    file.components.push_back(std::make_unique<WrittenComponent>(model, name, spelled, format));
  }
  check_names_differ(file);
  add_vocabularies(model, file);
  if (const auto left_out = unread_names(files, model, /*in_folders=*/true); !left_out.empty())
    warn("{} tensors of the folder have no place in one file and are left out ({} first); a folder keeps them", left_out.size(),
         left_out[0]);
  if (files.entries.size() == 1 && files.pipeline_folders.empty() && names.size() > 1) {
    std::vector<std::string> left_out;
    const auto unread = models::unread_tensors(files.entries[0], model.components());
    for (const auto& name : unread.names()) {
      if (name == models::vocabulary_in(files.entries[0])) continue;
      auto tensor = unread.tensor(name);
      if (static_cast<int64_t>(tensor.nbytes()) <= kLargestExtra) file.others.emplace_back(name, tensor);
      else left_out.push_back(name);
    }
    if (!left_out.empty()) warn("{} tensors that are no part of the model are left out ({} first)", left_out.size(), left_out[0]);
    file.metadata = files.entries[0].tensors->metadata();
    loras::drop_sums(file.metadata);
    file.metadata.erase(models::kQuantizationMetadata);  // of its layers; those that are written have marks of their own
  }
  for (const auto& [key, text] : model.names().file_words.settings) file.metadata.emplace(key, text);
  for (const auto& mark : model.names().marks) {
    bool is_there = std::any_of(file.others.begin(), file.others.end(), [&](const auto& item) { return item.first == mark; });
    if (!is_there) file.others.emplace_back(mark, at::zeros({1}));
  }
  std::vector<WrittenFile> all;
  all.push_back(std::move(file));
  write_all(all, o.paths.back());
  return join(names);
}

/// The component's folder in a pipeline: "transformer" of "transformer.".
std::string folder_of(const models::Model& model, const std::string& component) {
  auto name = model.names().of(component).layers.diffusers;
  return name.substr(0, name.rfind('.'));
}

/// Where configs, tokenizers and a scheduler are taken from, a folder with an index or with all components; empty when nothing has them.
fs::path template_folder(const Options& o, const models::ModelFiles& files, const models::Model& model) {
  auto is_whole = [&](const fs::path& folder) {
    auto has = [&](const std::string& name) { return io::is_there(folder / folder_of(model, name) / "config.json"); };
    return models::index_in(folder).has_value() || std::ranges::all_of(component_names(model), has);
  };
  if (o.config_from.empty()) {
    auto found = std::ranges::find_if(files.pipeline_folders, is_whole);
    return found == files.pipeline_folders.end() ? fs::path() : *found;
  }
  if (!is_whole(o.config_from)) data_error("convert", "{} is no diffusers folder: it has no model_index.json", o.config_from);
  return o.config_from;
}

nlohmann::json config_of(const models::Model& model, const std::string& component, const fs::path& from,
                         const models::CompanionFiles& made) {
  auto beside = from / folder_of(model, component) / "config.json";
  if (!from.empty() && io::is_there(beside)) return io::read_json(beside);
  if (auto it = made.configs.find(folder_of(model, component) + "/config.json"); it != made.configs.end()) return it->second;
  const auto& config = model.components().source(component).entry->config;
  if (config.is_object()) return config;
  config_error(
      "convert",
      "a diffusers folder needs the config.json of its {}, and the files have none; name a folder of this kind of model with --config_from",
      folder_of(model, component));
}

bool is_weight_file(const fs::path& path) {
  return io::is_tensor_file(path) || path.filename().string().find(".index.") != std::string::npos;
}

/// Whatever a pipeline's folder holds beside the weights of the components that are written.
void copy_rest(const fs::path& from, const fs::path& to, const std::set<std::string>& written) {
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    auto relative = entry.path().lexically_relative(from);  // and not of what a link leads to
    auto first = relative.begin()->string();
    bool at_top = std::distance(relative.begin(), relative.end()) == 1;
    bool is_hidden = first.starts_with(".");
    if (is_hidden || !entry.is_regular_file() || (is_weight_file(entry.path()) && (at_top || written.contains(first)))) continue;
    fs::create_directories((to / relative).parent_path(), error);
    if (!error) fs::copy_file(entry.path(), to / relative, error);
    if (error) data_error("convert", "cannot copy {} to {}: {}", entry.path().string(), (to / relative).string(), error.message());
  }
}

/// The parts of a pipeline that have weights and are neither `written` nor in the folder already.
std::vector<std::string> missing_parts(const fs::path& folder, const std::set<std::string>& written) {
  std::vector<std::string> parts, missing;
  if (auto index = models::index_in(folder)) {
    for (const auto& component : models::components_in(io::read_json(*index))) parts.push_back(component.folder);
  } else {
    for (const auto& entry : fs::directory_iterator(folder)) parts.push_back(entry.path().filename().string());
  }
  for (const auto& part : parts) {
    if (!written.contains(part) && io::is_there(folder / part / "config.json") && io::glob(folder / part, "*.safetensors").empty() &&
        io::glob(folder / part, "*.bin").empty())
      missing.push_back(part);
  }
  return missing;
}

/// Writes what a whole folder holds beside the components, where it is made of the model.
void write_rest(const models::CompanionFiles& made, const fs::path& to, const std::set<std::string>& written) {
  for (const auto& [place, json] : made.configs) {
    if (!written.contains(fs::path(place).begin()->string())) io::write_text_atomic(to / place, json.dump(2) + "\n");
  }
  for (const auto& [name, folder] : made.tokenizers) copy_rest(folder, to / name, {});
}

std::string write_folder(const Options& o, const models::ModelFiles& files, const models::Model& model, const NumberFormat& format) {
  auto from = template_folder(o, files, model);
  const auto made = from.empty() ? models::companion_files(model) : models::CompanionFiles{};
  io::AtomicFolder out(o.paths.back());
  std::vector<WrittenFile> written;
  std::set<std::string> folders;
  for (const auto& name : component_names(model)) folders.insert(folder_of(model, name));
  const bool is_made_whole = made.configs.contains("model_index.json");
  bool whole = !from.empty() || is_made_whole;
  if (is_made_whole) write_rest(made, out.place(), folders);
  else if (whole) copy_rest(from, out.place(), folders);
  if (auto missing = whole ? missing_parts(out.place(), folders) : std::vector<std::string>{}; !missing.empty())
    data_error("convert", "the folder {} would lack the weights of {}; name their files too", o.paths.back(), join(missing));
  for (const auto& name : component_names(model)) {
    auto config = config_of(model, name, from, made);
    auto folder = out.place() / folder_of(model, name);
    const auto path = folder / (config.contains("_class_name") ? "diffusion_pytorch_model.safetensors" : "model.safetensors");
    auto same = std::ranges::find(written, path, &WrittenFile::path);
    auto& file = same == written.end() ? written.emplace_back() : *same;
    file.path = path;
    file.components.push_back(std::make_unique<WrittenComponent>(model, name, models::names_in_folder(model, name), format));
    io::write_text_atomic(folder / "config.json", config.dump(2) + "\n");
  }
  for (auto& file : written) add_unread(model, file);
  if (const auto left_out = unread_names(files, model, /*in_folders=*/false); !left_out.empty())
    info("{} tensors that a diffusers folder does not have are left out ({} first)", left_out.size(), left_out[0]);
  write_all(written, o.paths.back());
  // Opening it says whether configs and weights belong together.
  models::ModelOptions options;
  options.own = models::default_options();
  std::vector<std::string> parts{out.place().string()};
  if (!whole) parts.assign(folders.begin(), folders.end());
  if (!whole) std::transform(parts.begin(), parts.end(), parts.begin(), [&](const auto& part) { return (out.place() / part).string(); });
  models::open_model(models::open_model_files({parts, "", ""}), options);
  out.commit();
  return join(component_names(model)) + (whole ? "" : " (no whole pipeline: --config_from adds tokenizers and scheduler)");
}

}  // namespace

std::string convert_model(const Options& o) {
  watch_for_interrupt(kInterruptAnswer);
  auto format = number_format(o);
  const std::vector<std::string> inputs(o.paths.begin(), o.paths.end() - 1);
  auto files = models::open_model_files({inputs, "", ""});
  models::ModelOptions options;
  options.own = models::default_options();
  auto model = models::open_model(files, options);
  std::vector<loras::LoraFile> lora_files;
  for (const auto& text : o.lora) lora_files.push_back(loras::parse_lora_file(text));
  loras::merge(*model, lora_files);
  bool single = fs::path(o.paths.back()).extension() == ".safetensors";
  if (single && !o.config_from.empty())
    config_error("convert", "--config_from is for folders, and {} is one file; take it out", o.paths.back());
  auto what = single ? write_single(o, files, *model, format) : write_folder(o, files, *model, format);
  return fmt::format("{}: {} {}", o.paths.back(), model->names().variant, what);
}

}  // namespace burnish::convert
