#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "data/file_notes.h"
#include "data/size.h"
#include "studio/thumbnails.h"

namespace burnish::studio {

/// Holds what only its pixels say of a picture or clip.
struct Look {
  uint64_t bits = 0;         ///< data::look_of; of a clip its first frame's
  double sharpness = 0;      ///< data::sharpness_of, at one size
  data::Size size = {};      ///< of a clip's frames
  int64_t num_frames = 0;    ///< of a clip
  double seconds = 0;        ///< that it takes
  std::string problem = {};  ///< why it cannot be decoded
};

/// Looks at the pictures and clips of datasets, once a file, while others ask for other things; what was seen is kept in a folder.
class Looks {
 public:
  /// `thumbnails` must outlive it.
  Looks(std::filesystem::path folder, Thumbnails& thumbnails);
  /// Ends; files that were not looked at yet are left.
  ~Looks();
  Looks(const Looks&) = delete;
  Looks& operator=(const Looks&) = delete;

  /// Returns what is known of each of these files of a dataset by now, by their order; those that are not known are looked at from now on.
  std::vector<std::optional<Look>> of(const std::filesystem::path& dataset, const std::vector<std::filesystem::path>& files);

 private:
  /// Files of a dataset that are looked at together.
  struct Task {
    std::filesystem::path dataset;
    std::vector<std::filesystem::path> files;
  };
  /// A result that holds as long as the file stays as it was.
  struct Seen {
    std::string identity;
    std::optional<Look> look = {};  ///< none while it is looked at
  };
  void work();
  std::filesystem::path notes_of(const std::filesystem::path& dataset) const;
  void look_at(const Task& task, data::FileNotes& notes);

  std::filesystem::path folder_;
  Thumbnails& thumbnails_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Seen> seen_;
  std::deque<Task> tasks_;
  bool stops_ = false;
  std::thread worker_;
};

}  // namespace burnish::studio
