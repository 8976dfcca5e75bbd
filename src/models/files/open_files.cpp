#include "models/files/open_files.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/input_error.h"
#include "base/text.h"
#include "io/files.h"
#include "io/json.h"
#include "models/files/coded_weights.h"
#include "models/files/pipeline_index.h"

namespace burnish::models {

namespace fs = std::filesystem;

namespace {

nlohmann::json config_beside(const fs::path& folder) {
  auto path = folder / "config.json";
  return io::is_there(path) ? io::read_json(path) : nlohmann::json();
}

/// An SDXL or SD folder's own config.json says nothing about a single file that merely lies beside it, so only component
/// configs (with a _class_name or an architectures list) count.
bool is_component_config(const nlohmann::json& config) {
  return config.is_object() && (config.contains("_class_name") || config.contains("architectures"));
}

/// Wan's own folders hold the config.json of the transformer alone, and the other components beside it as files of torch.save.
bool is_of_another(const fs::path& file) {
  const auto name = file.filename().string();
  auto is_called = [&](const std::string& stem) {  // and not models_t5..
    return name.starts_with(stem) && std::isalpha(static_cast<unsigned char>(name[stem.size()])) == 0;
  };
  return file.extension() == ".pth" && std::ranges::none_of(kWeightStems, is_called);
}

ModelEntry entry_of_files(const std::string& label, const std::vector<fs::path>& files) {
  for (const auto& file : files) {
    if (!io::is_there(file))
      data_error("models", "model file {} does not exist (looked for at {})", label,
                 label.empty() ? "nothing" : fs::absolute(file).string());
    if (!io::is_tensor_file(file))
      data_error("models", "{} is neither a .safetensors or .gguf file nor one of torch.save (.pth, .pt, .bin, .ckpt)", file.string());
  }
  ModelEntry entry{label, files.front().parent_path(), "", nullptr, show_weights(io::TensorSource::open(files))};
  if (is_of_another(files.front())) return entry;
  if (auto config = config_beside(entry.folder); is_component_config(config)) entry.config = config;
  return entry;
}

bool has_weights(const fs::path& folder) {
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() == ".safetensors" || file.path().extension() == ".bin") return true;
  }
  return false;
}

ModelEntry entry_of_component(const std::string& label, const fs::path& folder, const std::string& component) {
  ModelEntry entry{label, folder, component, config_beside(folder), std::nullopt};
  if (has_weights(folder)) entry.tensors = show_weights(io::TensorSource::open_folder(folder, kWeightStems));
  return entry;
}

/// Tells whether a folder is one of a component.
bool is_component(const fs::path& folder) { return io::is_folder(folder) && (io::is_there(folder / "config.json") || has_weights(folder)); }

/// The folders in this one that are each a component with a config.json that names its class: those that transformers wrote, or
/// all, those without weights too.
std::vector<fs::path> components_below(const fs::path& folder, bool of_transformers) {
  std::vector<fs::path> found;
  for (const auto& part : fs::directory_iterator(folder)) {
    if (!io::is_folder(part.path()) || (of_transformers && !has_weights(part.path()))) continue;
    const auto config = config_beside(part.path());
    if (is_component_config(config) && (!of_transformers || config.contains("architectures"))) found.push_back(part.path());
  }
  std::ranges::sort(found);
  return found;
}

/// Tells whether a run of this program saved the weights of a component in this file, which has no config.json of its own.
bool is_trained(const ModelEntry& entry) {
  if (!entry.tensors || !entry.config.is_null() || entry.is_sizes) return false;
  const auto& metadata = entry.tensors->metadata();
  auto trainer = metadata.find("trainer");
  return trainer != metadata.end() && trainer->second == "burnish";
}

/// Tells whether all tensors of `part` are tensors of `whole`, by name and shape.
bool has_all(const io::TensorSource& whole, const io::TensorSource& part) {
  return std::ranges::all_of(part.names(),
                             [&](const auto& name) { return whole.contains(name) && whole.info(name).shape == part.info(name).shape; });
}

/// Gives what was trained the config of the component that it was trained from: it has heads and the like, which no tensor tells.
void take_configs(std::vector<ModelEntry>& entries) {
  for (auto& entry : entries) {
    if (!is_trained(entry)) continue;
    auto from = std::ranges::find_if(entries, [&](const ModelEntry& other) {
      return other.tensors && is_component_config(other.config) && has_all(*other.tensors, *entry.tensors);
    });
    if (from != entries.end()) entry.config = from->config;
  }
}

/// Adds what each name stands for.
class Opener {
 public:
  Opener(const ModelNames& names, const PublishedSizes& published) : names_(names), published_(published) {}

  ModelFiles open() {
    for (const auto& name : names_.model) add_path(name);
    if (!names_.model_paths.empty()) add_json_paths(names_.model_paths);
    for (const auto& entry : split_list(names_.model_id_with_origin_paths)) add_model_id(entry);
    if (files_.entries.empty())
      config_error("models", "no model given; name one with --model FOLDER_OR_FILE, --model_paths or --model_id_with_origin_paths");
    std::ranges::stable_partition(files_.entries, [](const ModelEntry& entry) { return entry.in_model.empty(); });
    take_configs(files_.entries);
    return std::move(files_);
  }

 private:
  void add_part(ModelEntry entry, const fs::path& of) {
    entry.in_model = of.string();
    files_.entries.push_back(std::move(entry));
  }

  /// `name` is how the user named it.
  void add_pipeline_folder(const fs::path& folder, const fs::path& name) {
    files_.pipeline_folders.push_back(folder);
    const auto index = *index_in(folder);
    for (const auto& component : components_in(io::read_json(index))) {
      auto part = folder / component.folder;
      if (leaves_out(names_.hub, component.name) && !(io::is_folder(part) && has_weights(part))) continue;
      if (component.is_processor() && component.folder != component.name) continue;  // it lies beside weights
      if (!io::is_folder(part)) {
        bool may_be_missing = component.may_lie_elsewhere || component.is_processor() || is_unused_component(component.name);
        if (may_be_missing) continue;  // may be given apart; missed when it is asked for
        data_error("models", "{} lists the component '{}', but the folder {} is not there", index.string(), component.name, part.string());
      }
      if (io::is_there(part / "config.json") || has_weights(part))
        add_part(entry_of_component((name / component.folder).string(), part, component.name), name);
    }
  }

  /// A folder as Wan publishes it: a transformer, or two in folders of their own, with other components as files of torch.save beside, and
  /// in folders as transformers writes them; or one with a folder for each component, and no index of them.
  /// Returns whether it is one.
  bool add_original_folder(const fs::path& folder, const fs::path& name) {
    std::vector<ModelEntry> entries;
    for (const char* expert : {"high_noise_model", "low_noise_model"}) {
      if (is_component(folder / expert)) entries.push_back(entry_of_component((name / expert).string(), folder / expert, ""));
    }
    if (entries.empty() && is_component(folder)) entries.push_back(entry_of_component(name.string(), folder, ""));
    const bool has_denoiser = !entries.empty();
    for (const auto& part : components_below(folder, has_denoiser)) {
      const auto component = part.filename().string();
      entries.push_back(entry_of_component((name / component).string(), part, has_denoiser ? "" : component));
    }
    auto others = io::glob(folder, "*.pth");
    if (entries.empty() || (entries.size() == 1 && others.empty() && entries[0].folder == folder)) return false;
    for (const auto& file : others) entries.push_back(entry_of_files((name / file.filename()).string(), {file}));
    for (auto& entry : entries) add_part(std::move(entry), name);
    files_.pipeline_folders.push_back(folder);
    return true;
  }

  void add_path(const std::string& name) {
    fs::path path = name;
    if (auto sizes = io::is_there(path) ? std::nullopt : published_(name)) {
      for (auto& entry : *sizes) add_part(std::move(entry), name);
      return;
    }
    if (is_hub_model(name)) path = hub_folder(name, names_.hub);
    if (path.empty() || !io::is_there(path)) {
      data_error("models", "model '{}' does not exist (looked for at {}{})", name, name.empty() ? "nothing" : fs::absolute(name).string(),
                 is_hub_model(name) ? ", and in the cache of models from hubs" : "");
    }
    if (!io::is_folder(path)) {
      files_.entries.push_back(entry_of_files(name, {path}));
    } else if (index_in(path)) {
      add_pipeline_folder(path, name);
    } else if (add_original_folder(path, name)) {
      return;
    } else if (is_component(path)) {
      files_.entries.push_back(entry_of_component(name, path, ""));
    } else {
      data_error("models", "folder '{}' holds neither a model_index.json nor a config.json nor safetensors files", name);
    }
  }

  void add_json_paths(const std::string& text) {
    auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_array()) config_error("models", "model_paths must be a JSON list of paths or of lists of shards, not: {}", text);
    for (const auto& item : json) {
      if (item.is_string()) {
        add_path(item.get<std::string>());
      } else if (item.is_array() && !item.empty() && std::all_of(item.begin(), item.end(), [](auto& s) { return s.is_string(); })) {
        std::vector<fs::path> shards;
        for (const auto& shard : item) shards.emplace_back(shard.get<std::string>());
        files_.entries.push_back(entry_of_files(fmt::format("{} ({} shards)", shards[0].string(), shards.size()), shards));
      } else {
        config_error("models", "model_paths holds {}; expected a path or a list of shard paths", item.dump());
      }
    }
  }

  void add_model_id(const std::string& entry) {
    auto colon = entry.rfind(':');
    if (colon == std::string::npos) {
      config_error("models", "'{}' in model_id_with_origin_paths must read model_id:pattern, for example author/model:vae/*.safetensors",
                   entry);
    }
    auto id = entry.substr(0, colon), pattern = entry.substr(colon + 1);
    auto base = model_base_folder(id);
    auto found = model_base_files(id, pattern, names_.hub);
    bool is_folder = pattern.empty() || pattern.ends_with("/");
    if (found.empty()) {
      data_error("models",
                 "'{}': {} {}; put the model there, name its folder in DIFFSYNTH_MODEL_BASE_PATH, or let it be fetched (unset "
                 "DIFFSYNTH_SKIP_DOWNLOAD and HF_HUB_OFFLINE)",
                 entry, is_folder ? "no folder" : "nothing matches", fs::absolute(base / pattern).lexically_normal().string());
    }
    if (is_folder) add_path(found[0].string());
    else files_.entries.push_back(entry_of_files(entry, found));
    if (std::ranges::find(files_.pipeline_folders, base) == files_.pipeline_folders.end()) files_.pipeline_folders.push_back(base);
  }

  const ModelNames& names_;
  const PublishedSizes& published_;
  ModelFiles files_;
};

}  // namespace

ModelFiles open_files(const ModelNames& names, const PublishedSizes& published) { return Opener(names, published).open(); }

}  // namespace burnish::models
