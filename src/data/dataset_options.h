#pragma once
#include <string>
#include <vector>

#include "base/column.h"
#include "data/augmentation.h"
#include "data/captioned_folder.h"
#include "data/captions.h"
#include "data/clip_window.h"
#include "data/resize.h"

namespace burnish::data {

/// The rule by which a run visits the rows of one of its datasets.
struct VisitRule {
  double num_repeats = 1;     ///< visits of each row in an epoch; where it is no whole number, the rows take turns
  bool of_class_set = false;  ///< a class set has as many visits as all other rows together, and no repeats of its own
  CaptionRule captions = {};
  std::string trigger_word = {};  ///< what each of its captions has in it; "": none
  double slider_strength = 1;     ///< the strength of what is learned at which its samples are seen
};

/// A dataset of a run, which may have several.
struct Subset {
  std::string base_path;      ///< folder that file names in the metadata start from
  std::string metadata_path;  ///< or a folder of pictures with captions
  SizeRule size = {};
  Augmentation augmentation = {};
  double loss_weight = 1;  ///< factor on the loss of each of its samples
  CaptionFiles caption_files = {};
  VisitRule visits = {};
  ClipRule clips = {};
  std::string prompt = {};  ///< the caption of its one sample where a run goes without pictures
};

/// Tells whether animations of these are clips, of which all frames count, and else pictures.
bool reads_clips(const std::vector<Subset>& subsets);

/// Has a subset give what a model takes: sides, and of clips their lengths. A config Error for clips where it takes pictures.
void fit(Subset& subset, const Column& target);

/// The rows of the subsets are counted on from one to the next.
struct DatasetOptions {
  std::vector<Subset> subsets = {};
  std::string data_file_keys = "image,video";  ///< columns that hold files; the first one present is the picture
  bool skip_bad_samples = false;               ///< name and count them and go on; else the first one stops the run
  bool only_headers = false;  ///< whether of pictures headers alone are read: what sizes they have, and not whether they can be decoded
  /// The columns that are read of a row beside its captions: the target, without which pictures are trained, and further columns, of which
  /// one may say which pixels count (mask_of).
  ///
  /// Layers hold a list of files or name a folder of them, or there is a column a layer: image or image_0, then image_1 and so on. Columns
  /// that are cut as they are, but for masks, hold as many. Pictures and clips that are cut as the target is may be left empty by a row; so
  /// may lists of pictures, of which each is scaled and cut by its own size. Of what else names a file its path is kept.
  Columns columns = {};
  int64_t num_workers = 0;  ///< threads that are to load pictures ahead of those who take them
  /// The folder where it is remembered which pictures were decoded, so that unchanged ones are not decoded again to check them; "": none.
  std::string checks_folder = {};
};

}  // namespace burnish::data
