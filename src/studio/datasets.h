#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "studio/workspace.h"

namespace burnish::studio {

/// A picture or clip of a dataset, as a page names it.
struct Item {
  std::filesystem::path path;
  bool is_left_out = false;

  std::filesystem::path caption_file() const;
};

/// Datasets as folders of pictures and clips with a text file beside each (data/captioned_folder.h). What is left out lies in the folder's
/// .excluded, where no program looks for pictures.
class Datasets {
 public:
  /// The workspace must outlive it.
  explicit Datasets(const Workspace& workspace) : workspace_(workspace) {}

  /// [{"name", "items", "captions"}]: how many pictures and clips there are, and how many of them have a caption.
  nlohmann::json list() const;
  /// [{"file", "caption": text or null, "is_left_out", "is_clip", "height", "width", "bytes", "problem"}], by name; sizes are 0 for what
  /// cannot be read, with the reason.
  nlohmann::json items(const std::filesystem::path& dataset);
  /// Nothing for what is no name of a picture or clip of the dataset.
  static std::optional<Item> find(const std::filesystem::path& dataset, const std::string& file);
  /// The picture, at most `side` pixels wide and high, as a WebP file's bytes. It is kept in the workspace. A data Error where it cannot be
  /// read.
  std::string thumbnail(const Item& item, int64_t side) const;

  /// "" removes the file.
  static void write_caption(const Item& item, const std::string& caption);
  /// Moves it, with its caption, out of the pictures that are trained, or back.
  static void leave_out(const std::filesystem::path& dataset, const Item& item, bool out);
  /// Moves it, with its caption, into the bin.
  void throw_away(const std::filesystem::path& dataset, const Item& item) const;

  /// Whether files of this name may be added to a dataset: pictures, clips, captions.
  static bool takes(const std::string& file);

 private:
  /// What was read of a file, as long as it stays as it was.
  struct Known {
    std::filesystem::file_time_type time = {};
    uint64_t bytes = 0;
    int64_t height = 0, width = 0;
    std::string problem = {};
  };
  const Known& known(const std::filesystem::path& file);
  nlohmann::json describe(const Item& item);

  const Workspace& workspace_;
  std::mutex mutex_;
  std::map<std::string, Known> known_;
};

}  // namespace burnish::studio
