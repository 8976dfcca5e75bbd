#pragma once
#include "config/fields.h"
#include "data/dataset.h"

namespace burnish::train {

/// Options that say how the pictures and captions of a dataset are seen: the run's options, and those of each dataset in a dataset_config,
/// which begins with the run's. Names are sd-scripts' (library/config_util.py) where it has the option.
struct DatasetChoice {
  data::Subset subset;       ///< what the options say as it is; subsets_of makes one a resolution of it
  data::BucketRule buckets;  ///< of each resolution, where enable_bucket asks for buckets
  std::vector<std::string> resolution;
  std::string multi_resolution = "all";
  bool enable_bucket = false, bucket_no_upscale = true;
  std::string bucket_rule = "kohya", frame_extraction = "head", media = "all";
  double frame_rate = 0;
};
void fields(config::Fields& f, DatasetChoice& o);
/// Throws a config Error for unknown names, numbers that make no sense, and contradictions.
void check(const DatasetChoice& o);

/// Reads the datasets of a TOML file of [general], [[datasets]] and [[datasets.subsets]], each beginning as `run`. File names start from
/// the folder of that file. Throws a config Error for a file that is none.
std::vector<DatasetChoice> read_dataset_config(const std::string& path, const DatasetChoice& run);

/// Returns the rule by which clips become samples, without what the model says of their lengths.
data::ClipRule clip_rule(const DatasetChoice& o);

/// Makes of the options a subset for each resolution. `cache_variants` 0 becomes the number that the ways of cutting ask for.
std::vector<data::Subset> subsets_of(const DatasetChoice& o, int64_t cache_variants);

/// Returns the folder that file names in a metadata file start from: `base_path`, or where it is empty the file's own folder.
std::string base_of(const std::string& metadata_path, const std::string& base_path);

}  // namespace burnish::train
