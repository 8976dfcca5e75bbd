#pragma once
#include <string>
#include <vector>

#include "data/dataset.h"

namespace burnish::app {

/// Holds what is seen of a folder of pictures, or of a metadata file, before a first run.
struct SeenPictures {
  std::string path;
  int64_t num_pictures = 0, num_bad = 0, num_without_caption = 0;
  data::Size smallest = {}, largest = {};
  std::vector<std::string> captions = {};  ///< captions that are there
  std::string text = {};                   ///< all of this for people, with what is wrong

  /// Counts captions that do not say these words.
  int64_t num_without(const std::string& words) const;
};

/// Looks at all pictures. A data Error where none can be used.
SeenPictures look_at_pictures(const std::string& path);

}  // namespace burnish::app
