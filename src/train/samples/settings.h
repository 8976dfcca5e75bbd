#pragma once
#include <memory>

#include "data/dataset.h"
#include "train/samples/inputs.h"

namespace burnish::train {

/// The portion of the work that this process does; all processes share one cache.
struct Portion {
  int64_t num_processes = 1, process_index = 0;
  int64_t num_places = 1, place = 0;  ///< so many processes do one portion together, each some tokens of every sample
  bool same_parts = false;            ///< whether all processes run as many parts of a batch, since they need each other for each
};

/// Settings that say where samples come from, and what is kept of them.
struct DataSettings {
  bool from_pictures = true;                 ///< whether they are read from pictures, else from a cache that was made before
  data::DatasetOptions pictures;             ///< options of the pictures, without what model and objective say
  data::DatasetOptions held_out;             ///< options of held-out pictures; no subsets: none
  std::string list_folder;                   ///< folder of a cache that was made before
  bool is_import = false;                    ///< whether list_folder is named as another program's cache
  double caption_dropout = 0;                ///< share of visits under the empty caption, from list_folder; 0: as its list says
  std::string cache_folder;                  ///< "" keeps everything in memory
  double cache_bytes = 0, weight_bytes = 0;  ///< budgets in bytes; 0: none
  Portion portion;
  std::shared_ptr<const InputTable> inputs = {};  ///< values that units may read of a sample
};

}  // namespace burnish::train
