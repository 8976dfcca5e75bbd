#pragma once
#include "data/cache.h"
#include "pipeline/schedule.h"
#include "train/samples/inputs.h"

namespace burnish::train {

/// Where a result lies.
struct Entry {
  data::CacheSection* section = nullptr;
  std::string key;
};
using Entries = std::map<std::string, Entry>;  ///< by value name

/// What frozen units made of each sample, once.
///
/// Every result has a key made of the contents it was made from: the caption, the bytes of the picture and how it is cut, the weights,
/// configuration and precision of the models, and the unit. So a change of any of them leads to other keys, and equal inputs share one
/// entry.
struct Kept {
  std::map<int64_t, std::vector<Entries>> by_row;                        ///< of each variant
  Entries empty_caption;                                                 ///< what the empty caption alone decides
  std::map<int64_t, std::string> picture_hashes;                         ///< by row, of the files that results were made from
  std::map<int64_t, std::map<std::string, std::string>> further_hashes;  ///< by row and column, of the files beside them

  /// The named values of a sample, each with a leading batch dimension of 1. Under the empty caption, those that a caption alone decides
  /// are the empty caption's.
  pipeline::Values values(const Pick& pick, const std::vector<std::string>& names) const;
  /// Bytes that all samples have in the cache, counting what several of them share once.
  int64_t num_bytes() const;
  /// How many samples have all their values in the cache; fewer than all while other processes are at work.
  int64_t num_complete() const;
};

/// Adds a value to the tensors of a cache entry: a tensor under its name, a sample's list as the number of its tensors under NAME.size and
/// each under NAME.0, NAME.1 and so on. std::logic_error for a text.
void put(data::Tensors& entry, const std::string& name, const pipeline::Value& value);
/// The value of that name in an entry, as `put` left it there.
pipeline::Value take(const data::Tensors& entry, const std::string& name);

/// A data Error unless the empty caption can take the place of a sample's: unless all that the schedule makes of a caption and keeps
/// depends on the caption alone.
void check_empty_caption(const Kept& kept, const pipeline::Schedule& schedule, const InputTable& inputs);

}  // namespace burnish::train
