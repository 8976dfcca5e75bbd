#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "studio/caption_table.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// A picture or clip of a dataset, as a page names it.
struct Item {
  std::string name;  ///< from the dataset's folder on: "more/cat.png"
  std::filesystem::path path;
  bool is_left_out = false;

  std::filesystem::path caption_file() const;
  /// Returns what lies beside it and goes where it goes: its caption, its further columns and its mask, those of them that are there.
  std::vector<std::filesystem::path> companions() const;
};

/// Datasets as folders of pictures and clips, and of folders of them, with a text file beside each (data/captioned_folder.h). What is left
/// out lies in the folder's .excluded, where no program looks for pictures. Captions stand in the folder's table, where it has one
/// (caption_table.h).
class Datasets {
 public:
  /// The workspace must outlive it.
  explicit Datasets(const Workspace& workspace) : workspace_(workspace) {}

  /// [{"name", "items", "first", "captions", "folder"}]: how many pictures and clips there are, the first few of them, how many have a
  /// caption, and the folder that is linked, or null; with "problem" where that folder is gone.
  nlohmann::json list() const;
  /// [{"file", "caption": text or null, "mask": a number that changes with it or null, "is_left_out", "is_clip", "height", "width",
  /// "bytes", "problem"}], by name; sizes are 0 for what cannot be read, with the reason.
  nlohmann::json items(const std::filesystem::path& dataset);
  /// Its pictures and clips, by name.
  static std::vector<Item> files(const std::filesystem::path& dataset);
  /// Nothing for what is no name of a picture or clip of the dataset.
  static std::optional<Item> find(const std::filesystem::path& dataset, const std::string& file);
  /// "" removes the file.
  static void write_caption(const Item& item, const std::string& caption);
  /// Moves it, with what lies beside it, out of the pictures that are trained, or back; false where another one is there.
  static bool leave_out(const std::filesystem::path& dataset, const Item& item, bool out);
  /// Moves it, with what lies beside it, into the bin; its id there (bin.h).
  std::string throw_away(const std::filesystem::path& dataset, const Item& item) const;

  /// Tells whether files of this name may be added to a dataset: pictures, clips, captions.
  static bool takes(const std::string& file);

 private:
  /// What was read of a file, as long as it stays as it was.
  struct SeenPicture {
    std::filesystem::file_time_type time = {};
    uint64_t bytes = 0;
    int64_t height = 0, width = 0;
    bool is_clip = false;
    std::string problem = {};
  };
  /// An item with what lies beside it, as one look at the folder finds it.
  struct Listed {
    Item item;
    bool has_caption = false;
    std::filesystem::path mask = {};
  };
  static std::vector<Listed> listed(const std::filesystem::path& dataset, bool is_left_out);
  static void list_folder(const std::filesystem::path& root, const std::string& below, bool is_left_out, std::vector<Listed>& all,
                          int64_t& num_looks);
  static std::vector<Listed> listed(const std::filesystem::path& dataset);
  const SeenPicture& known(const std::filesystem::path& file);
  /// The caption of an item in the table of its dataset, or, where that has none, beside it; nothing for none, and for a blank one.
  static std::optional<std::string> caption_of(const Listed& listed, const std::optional<CaptionTable>& table);
  nlohmann::json describe(const Listed& listed, const std::optional<CaptionTable>& table);

  const Workspace& workspace_;
  std::mutex mutex_;
  std::map<std::string, SeenPicture> known_;
};

/// When something of a folder of pictures was changed last, added or taken away, in seconds since 1970; of a file, when that was. 0 where
/// nothing is there.
double changed_at(const std::filesystem::path& data);

}  // namespace burnish::studio
