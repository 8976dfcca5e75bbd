#pragma once
#include <map>
#include <optional>
#include <set>

#include "data/augmentation.h"
#include "data/captioned_folder.h"
#include "data/captions.h"
#include "data/clip_window.h"
#include "data/file_notes.h"
#include "data/resize.h"

namespace burnish::data {

/// The source of a mask, which says what pixels count: a gray picture of its size that a column names, or its own transparency.
struct MaskSource {
  enum class From { nothing, column, alpha } from = From::nothing;
  std::string column = {};
};

/// The origin of rows: the file or folder, and what names its content.
struct MetadataOrigin {
  std::string path, hash;
  CaptionFiles captions = {};  ///< with which it was read
};

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
};

/// Tells whether animations of these are clips, of which all frames count, and else pictures.
bool reads_clips(const std::vector<Subset>& subsets);

/// The rows of the subsets are counted on from one to the next.
struct DatasetOptions {
  std::vector<Subset> subsets = {};
  std::string data_file_keys = "image,video";  ///< columns that hold files; the first one present is the picture
  bool skip_bad_samples = false;               ///< name and count them and go on; else the first one stops the run
  bool only_headers = false;  ///< whether of pictures headers alone are read: what sizes they have, and not whether they can be decoded
  std::vector<std::string> extra_columns = {};  ///< further columns that are kept
  std::vector<std::string> extra_files = {};    ///< further ones that name files; what is kept of them is the path
  /// Columns that name further pictures, of the size of the row's picture and cut as it is, and of a row that is a clip further clips, of
  /// which the same frames are taken; a row may leave them empty.
  std::vector<std::string> further_pictures = {};
  std::map<std::string, int64_t> squares = {};  ///< columns of these that are cut to a square of this side, whatever size they have
  /// Columns that name pictures of sizes of their own, one or a list, or none in a row that leaves it empty; each is scaled and cut by its
  /// own size.
  std::vector<std::string> own_sized_pictures = {};
  std::set<std::string> whole_pictures = {};  ///< columns of further pictures that are neither scaled nor cut
  int64_t num_workers = 0;                    ///< threads that are to load pictures ahead of those who take them
  MaskSource mask = {};                       ///< where masks are; a column of them is one of further pictures
  /// Whether rows are pictures of layers, with transparency: the whole first, then what lies in it, from the back to the front. The column
  /// of the picture holds a list of files or names a folder of them, or there is a column a layer: image or image_0, then image_1 and so
  /// on. Pictures are then of four channels, and columns of further ones, but for masks, hold as many layers.
  bool layers = false;
  /// The folder where it is remembered which pictures were decoded, so that unchanged ones are not decoded again to check them; "": none.
  std::string checks_folder = {};
};

/// A picture or clip with its caption, as it is trained.
struct Sample {
  int64_t row = 0;
  std::string prompt;
  std::string file;
  at::Tensor pixels_HW3;  ///< uint8; of a clip [F, H, W, 3]; where datasets have layers with 4 channels
};

/// Names a row's picture of that number, from 0 on, in a column of own-sized pictures, among its further pictures: the column's name, and
/// from the second on with a count: "kontext_images", "kontext_images 2".
std::string picture_name(const std::string& column, size_t number);

/// Names the k-th layer of a row's picture behind the first one, k from 1 on, among its further pictures.
std::string layer_name(int64_t k);

/// Names the content of a metadata file, or of a folder with captions.
std::string metadata_hash(const Metadata& metadata);

/// Pictures, clips and captions behind a metadata file. A clip gives a row for each window that its subset's rule takes out of it, from the
/// place of its own row on. Opening a dataset checks every row: that its files are there, that the whole pictures can be
/// decoded (each file once, or never where that is remembered), that the row's is large enough and further ones have its size; so a damaged
/// file is known before a model is loaded.
class Dataset {
 public:
  struct Entry {
    std::string prompt, file;                         ///< the caption where none is drawn, and the path of the picture
    Captions captions = {};                           ///< captions as they are in the metadata; at least one
    uint64_t name = 0;                                ///< hash of the file's name as the metadata has it
    nlohmann::json extra = nlohmann::json::object();  ///< the extra columns that it has, by name
    std::map<std::string, std::string> further = {};  ///< paths of its further pictures, by column
    /// The sizes of its own-sized pictures before they are scaled and cut, by column; their files are further.
    std::map<std::string, std::vector<Size>> picture_sizes = {};
    double loss_weight = 1;                 ///< the row's column loss_weight, a number of at least 0, times its subset's
    size_t subset = 0;                      ///< number of the subset that it is of
    Size original_size = {};                ///< size of the picture before it is scaled and cut
    std::optional<ClipWindow> window = {};  ///< the frames of a clip, or the layers, that the row is; none where it is a picture
    bool has_mask_clip = false;             ///< whether what says which pixels of the clip count is a clip as well
  };

  /// Throws a data Error when no usable row is left, or (unless bad samples are skipped) at the first bad one; the message counts them all.
  explicit Dataset(const DatasetOptions& options);

  /// Rows that can be used, in file order.
  const std::vector<int64_t>& rows() const { return rows_; }
  /// The extent that a row is trained at.
  Extent extent(int64_t row) const {
    const auto& window = entry(row).window;
    return extent_of(sizes_.at(row), window ? window->count : 1);
  }
  /// The most that a subset asks for; those of a subset without augmentation are equal.
  int64_t num_variants() const;
  /// Says how a variant of a row is cut; without augmentation every variant is the centre.
  Crop crop(int64_t row, int64_t variant = 0) const;
  /// Tells whether a crop of the row is its centre.
  bool is_centre(int64_t row, const Crop& crop) const;
  /// Decodes, resizes and cuts; a data Error when `row` is not usable.
  Sample load(int64_t row, int64_t variant = 0) const;
  /// A further picture of the row, uint8 [H, W, 3], or the frames of a further clip [F, H, W, 3], scaled, cut and mirrored as the row's
  /// are; a data Error when the row has none in that column. Where datasets have layers, layers of 4 channels.
  at::Tensor load_further(int64_t row, const std::string& column, int64_t variant = 0) const;
  /// Says how each of a row's pictures in a column of own-sized ones is cut: the centre, of the size that its subset's rule gives a picture
  /// like it, or all of it where they are whole, mirrored where the row's picture is.
  std::vector<Crop> picture_crops(int64_t row, const std::string& column, int64_t variant = 0) const;
  /// Loads these pictures in their order, each uint8 [H, W, 3], or with layers [H, W, 4], scaled and cut.
  std::vector<at::Tensor> load_pictures(int64_t row, const std::string& column, int64_t variant = 0) const;
  /// Loads how much each pixel of the row's picture counts, uint8 [H, W, 1], scaled, cut and mirrored as it is; of a clip whose mask is a
  /// clip as well, and of layers whose own transparency counts, each frame's, [F, H, W, 1]. Undefined without a mask.
  at::Tensor load_mask(int64_t row, int64_t variant = 0) const;
  const DatasetOptions& options() const { return options_; }
  /// Returns all that is known of a row.
  const Entry& entry(int64_t row) const { return entries_.at(static_cast<size_t>(row)); }
  /// A row as a message names it: "row 3", "row 3 of the class set" or "row 3 of FOLDER", counted from its subset's first.
  std::string name_of(int64_t row) const;

  const std::vector<Subset>& subsets() const { return options_.subsets; }
  /// The origin of each subset.
  const std::vector<MetadataOrigin>& origins() const { return origins_; }

  /// Remembers in checks_folder which pictures could be decoded; made, with its folders, where it is not there.
  void save_checks() { checks_.save(); }

  /// The sentences about bad rows, by row number.
  const std::map<int64_t, std::string>& bad_samples() const { return bad_; }

 private:
  void read(size_t subset);
  void check_enough_good() const;
  void check_pictures();
  void check_usable(int64_t row) const;

  DatasetOptions options_;
  FileNotes checks_;
  std::vector<MetadataOrigin> origins_;
  std::vector<int64_t> first_rows_;  ///< first row of each subset
  std::vector<Entry> entries_;       ///< entries by row
  std::vector<int64_t> rows_;
  std::map<int64_t, Size> sizes_;  ///< sizes of the usable rows
  std::map<int64_t, std::string> bad_;
};

}  // namespace burnish::data
