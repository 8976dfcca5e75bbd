#pragma once
#include <memory>

#include "data/dataset.h"
#include "train/samples/inputs.h"

namespace burnish::train {

/// What part of the work this process does; all processes share one cache.
struct Portion {
  int64_t num_processes = 1, process_index = 0;
  int64_t num_places = 1, place = 0;  ///< where so many processes do the same part together, each of some tokens of every sample
};

/// Where samples come from, and what is kept of them.
struct DataSettings {
  bool from_pictures = true;                 ///< else from a cache that was made before
  data::DatasetOptions pictures;             ///< without what model and objective say
  data::DatasetOptions held_out;             ///< no subsets: none
  std::string list_folder;                   ///< of a cache that was made before
  bool is_import = false;                    ///< list_folder is named as another program's cache
  double caption_dropout = 0;                ///< of samples from list_folder, in place of what its list says; 0: as that says
  std::string cache_folder;                  ///< "" keeps everything in memory
  double cache_bytes = 0, weight_bytes = 0;  ///< budgets; 0: none
  Portion portion;
  std::shared_ptr<const InputTable> inputs = {};  ///< what units may read of a sample
};

}  // namespace burnish::train
