#pragma once
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "studio/program.h"
#include "studio/queue.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// A file or folder that holds weights, as a page names it.
struct WeightFile {
  std::string place;  ///< "files", "loras" or "runs/NAME"
  std::string name;   ///< there; of a file in a folder "FOLDER/FILE"
};

/// Files with weights: those that somebody dropped, those that runs saved, and what they are converted into.
class Files {
 public:
  /// The workspace must outlive it. Goes on with conversions that wait.
  Files(const Workspace& workspace, const std::string& program, CheckSettings check = {});

  /// [{"place", "name", "bytes", "is_folder", "is_adapter", "written"}], the newest first. Of folders there is one that holds weights by
  /// itself, of peft or diffusers say.
  nlohmann::json list();
  /// Tells whether a run saved any adapter.
  bool has_adapter(const std::filesystem::path& run);
  /// The path of a file or folder; nothing where there is none, and for what is no place or name.
  std::optional<std::filesystem::path> find(const WeightFile& file) const;
  /// The path that a file may be added under to files/ or loras/, or one like it, in folders of the names before it; nothing for other
  /// places and for files that belong to no model.
  std::optional<std::filesystem::path> path_to_add(const WeightFile& file) const;

  /// Puts a conversion into the queue: of `inputs`, in this order, into a file or folder like `wish` in files/, with the options of
  /// `burnish convert` as TOML. A config Error for inputs that are not there.
  Job convert(const std::vector<WeightFile>& inputs, const std::string& wish, const std::string& settings);
  Queue& conversions() { return conversions_; }

 private:
  /// What was read of a file, as long as it stays as it was.
  struct SeenFile {
    std::filesystem::file_time_type time = {};
    bool is_adapter = false;
  };
  bool is_adapter(const std::filesystem::path& path);
  void add_to(std::vector<nlohmann::json>& all, const std::string& place);

  const Workspace& workspace_;
  Queue conversions_;
  std::mutex mutex_;
  std::map<std::string, SeenFile> known_;
};

/// A WeightFile of {"place", "name"}.
WeightFile weight_file_of(const nlohmann::json& value);

/// A text, or a list of texts, as TOML writes them.
std::string to_toml(const nlohmann::json& value);

}  // namespace burnish::studio
