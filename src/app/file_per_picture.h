#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "app/journal.h"
#include "base/error.h"
#include "base/log.h"
#include "data/caption_places.h"
#include "models/model/components.h"

// What verbs have in common that write a file for each picture of folders, by a model that sees it.
namespace burnish::app {

/// Holds what came of it.
struct FilesWritten {
  nlohmann::json written = nlohmann::json::array(), bad = nlohmann::json::array();
  int64_t num_there = 0;  ///< files that were there and stay

  /// Does something for a picture; a data Error of it is said and kept, and others lose nothing by it. `what` names the file that is
  /// written: "caption".
  template <class Work>
  void tried(const std::filesystem::path& picture, const char* what, const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      if (error.code() != Exit::data) throw;
      warn("{} has no new {}: {}", picture.string(), what, without_source(error));
      bad.push_back({{"file", picture.string()}, {"error", without_source(error)}});
    }
  }
};

/// The files of one folder that are to be written, and what of them is done.
struct FolderWork {
  std::unique_ptr<Journal> journal;  ///< null where files that are there are left
  std::vector<data::PlaceBeside> places;
};

/// Leaves the places of these pictures alone, which are named from the folder on; all, where none is named. A config Error for a name of
/// none.
void keep_only(const std::vector<std::string>& pictures, const std::string& folder, std::vector<data::PlaceBeside>& places);

/// Takes out of places what is done: where files that are there are left, those; else those that a command of these settings wrote before
/// it was interrupted, which is said. `verb` names it and its journal: "caption".
FolderWork work_left(std::vector<data::PlaceBeside> places, const std::filesystem::path& journal_folder, const char* verb, bool fills,
                     const std::string& settings, FilesWritten& outcome);

/// Hands the places of all folders, a batch of one folder at a time, to `write`, which is false where Ctrl-C came; false then. `verb` names
/// the bar of progress.
bool by_batches(const std::vector<FolderWork>& work, int64_t batch_size, const char* verb,
                const std::function<bool(std::span<const data::PlaceBeside> places, Journal* journal)>& write);

/// Takes the journals away of what is done.
void end_journals(const std::vector<FolderWork>& work);

/// Says what a model takes before its components are loaded, and loads them.
void load_all(models::Components& components, const std::string& name);

/// Prints what came of it: as JSON, or how many of `what` ("caption") were written.
void tell_outcome(const FilesWritten& outcome, bool as_json, const char* what);

/// Throws an Error where a verb was interrupted, or where nothing at all could be written for `num_places`.
void check_outcome(const FilesWritten& outcome, const char* verb, bool is_done, int64_t num_places);

}  // namespace burnish::app
