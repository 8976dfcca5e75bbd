#pragma once
#include "data/cache.h"
#include "pipeline/schedule.h"
#include "train/samples/inputs.h"

namespace burnish::train {

/// The section and the key where a result lies in the cache.
struct CacheSlot {
  data::CacheSection* section = nullptr;
  std::string key;
};
using CacheSlots = std::map<std::string, CacheSlot>;  ///< entries by value name

/// Results that frozen units made once of each sample.
///
/// Every result has a key made of the contents it was made from: the caption, the bytes of the picture and how it is cut, the weights,
/// configuration and precision of the models, and the unit. So a change of any of them leads to other keys, and equal inputs share one
/// entry.
struct Kept {
  std::map<int64_t, std::vector<CacheSlots>> by_row;  ///< entries of each variant, by row
  CacheSlots empty_caption;                           ///< entries that the empty caption alone decides
  std::map<int64_t, data::RowHashes> hashes;          ///< hashes of the files that results were made from, by row
  std::map<std::string, std::string> digests = {};    ///< digests_of_options of the run that made the cache; none of pictures

  /// Reads the named values of a sample, each with a leading batch dimension of 1. Under the empty caption, values that a caption alone
  /// decides are the empty caption's.
  pipeline::Values values(const Pick& pick, const std::vector<std::string>& names) const;
  /// Counts the bytes that all samples have in the cache; what several of them share counts once.
  int64_t num_bytes() const;
  /// Counts the samples that have all their values in the cache; fewer than all while other processes are at work.
  int64_t num_complete() const;
};

/// Samples with the results that a cache already keeps of them: none where they are pictures.
struct Listed {
  Samples samples;
  Kept kept;
};

/// Adds a value to the tensors of a cache entry: a tensor under its name, a sample's list as the number of its tensors under NAME.size and
/// each under NAME.0, NAME.1 and so on. std::logic_error for a text.
void put(data::Tensors& entry, const std::string& name, const pipeline::Value& value);
/// Takes the value of that name out of an entry, as `put` left it there.
pipeline::Value take(const data::Tensors& entry, const std::string& name);

/// Throws a data Error unless the empty caption can take the place of a sample's: unless all that the schedule makes of a caption and keeps
/// depends on the caption alone.
void check_empty_caption(const Kept& kept, const pipeline::Schedule& schedule, const InputTable& inputs);

}  // namespace burnish::train
