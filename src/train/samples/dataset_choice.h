#pragma once
#include "config/fields.h"
#include "data/dataset.h"

namespace burnish::train {

/// Options that say how the pictures and captions of a dataset are seen: the run's options, and those of each dataset in a dataset_config,
/// which begins with the run's. Names are sd-scripts' (library/config_util.py) where it has the option.
struct DatasetChoice {
  int64_t height = 0, width = 0, max_pixels = 1048576;
  std::vector<std::string> resolution;
  std::string multi_resolution = "all";
  bool enable_bucket = false, bucket_no_upscale = true;
  std::string bucket_rule = "kohya";
  int64_t min_bucket_reso = 256, max_bucket_reso = 1024, bucket_reso_steps = 64;
  data::Augmentation augmentation;  ///< without num_variants, which cache_variants says
  int64_t num_frames = 0, frame_stride = 1, frame_sample = 4;
  double frame_rate = 0;
  std::string frame_extraction = "head";

  std::string caption_extension = ".txt", class_tokens, trigger_word, caption_prefix, caption_suffix, mask_folder;
  double caption_dropout = 0, caption_tag_dropout_rate = 0;
  bool enable_wildcard = false, shuffle_caption = false;
  int64_t keep_tokens = 0;
  std::string keep_tokens_separator, caption_separator = ",", secondary_separator;

  // These belong to a dataset in a dataset_config alone.
  std::string base_path, metadata_path, media = "all";
  double num_repeats = 1, loss_weight = 1;
  bool is_reg = false;
  double slider_strength = 1;
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
