#pragma once
#include <map>
#include <optional>

#include "data/cache.h"
#include "data/dataset.h"
#include "models/family.h"
#include "train/draws.h"

namespace burnish::train {

/// A sample of a training run, as far as the loop needs to know it.
struct SampleInfo {
  int64_t row = 0;
  data::Size size;
  std::string prompt = {};
  nlohmann::json inputs = nlohmann::json::object();  ///< further columns of the metadata, by name
  std::string file = {}, file_hash = {};             ///< the picture it was made from; "" when that is not known
};

/// A sample of another program's cache, put into ours.
struct ImportedSample {
  SampleInfo info;
  std::map<std::string, std::pair<data::CacheSection*, std::string>> places;  ///< section and key of each value
};

/// What part of the work this process does; all processes share one cache.
struct Share {
  int64_t num_processes = 1, process_index = 0;
};

/// Channels, rows and columns of the latents among a sample's values; empty when there are none.
std::vector<int64_t> latent_shape_of(const pipeline::Values& sample);

/// What the frozen models make of each sample, computed once: every model is loaded, run over the samples that need it, and dropped
/// before the next, so that no two are in memory together. A model whose results are all in the cache is never loaded.
///
/// Every result has a key made of the contents it was made from: the caption, the bytes of the picture and the size it is cut to, the
/// weights, configuration and precision of the models, and the unit. So a change of any of them leads to other keys, and equal inputs
/// share one entry.
class Prepared {
 public:
  /// Runs `cut.prepare` (no unit of which depends on a draw or a trained model) over all rows, and over the empty caption.
  Prepared(models::Model& model, const pipeline::Cut& cut, const data::Dataset& dataset, data::Cache& cache, Share share = {});
  /// Takes the samples that `save_list` wrote; a data Error when they are not what `carried` asks for, not complete, or out of date: when
  /// the metadata or a picture they were made from is still there and is another now.
  Prepared(data::Cache& cache, const std::vector<std::string>& carried);

  /// Takes samples that were imported into `cache`; they bring no empty caption.
  Prepared(data::Cache& cache, const std::vector<ImportedSample>& imported);

  const std::vector<SampleInfo>& samples() const { return samples_; }
  const SampleInfo& sample(int64_t row) const;
  /// False for a cache that was made before captions were listed.
  bool has_captions() const { return has_captions_; }
  /// Ways in which each picture was cut.
  int64_t num_variants() const { return num_variants_; }
  /// The values of one sample, each with a leading batch dimension of 1. Under the empty caption, those that a caption alone decides are
  /// the empty caption's.
  pipeline::Values values(const Pick& pick) const;
  /// A data Error unless the empty caption can take the place of a sample's: unless all that `units` make of a caption and that is carried
  /// depends on the caption alone.
  void check_empty_caption(const pipeline::Units& units) const;
  /// A data Error when values do not have the sizes that the denoiser takes (Model::value_shapes).
  void check_shapes(const std::map<std::string, std::vector<int64_t>>& expected) const;
  /// Bytes that these samples have in the cache, counting what several of them share once.
  int64_t num_bytes() const;
  /// How many samples have all their values in the cache; fewer than all while other processes are at work.
  int64_t num_complete() const;
  /// Writes `samples.json` into the cache, with which it can be trained from alone.
  void save_list() const;

 private:
  struct Place {
    data::CacheSection* section = nullptr;
    std::string key;
  };
  using Places = std::map<std::string, Place>;  ///< by value name
  const std::vector<Places>& places(int64_t row) const;
  void check_listed() const;
  void check_origin() const;
  Places read_places(const nlohmann::json& json, const std::map<std::string, data::CacheSection*>& sections) const;

  data::Cache& cache_;
  std::vector<SampleInfo> samples_;
  std::string metadata_path_, metadata_hash_;  ///< what the samples were read from
  int64_t num_variants_ = 1;
  std::map<int64_t, std::vector<Places>> by_row_;  ///< of each variant
  bool has_captions_ = true;
  Places empty_caption_;  ///< what the empty caption alone decides
};

}  // namespace burnish::train
