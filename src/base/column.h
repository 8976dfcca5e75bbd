#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/extent.h"

namespace burnish {

/// A column of a row: plain data, as an Extent is. Families, objectives and runs declare columns; data/read.h alone goes from a
/// cell of one to pixels, samples or numbers, for training and for drawing.
struct Column {
  enum class Is {
    picture,     ///< a picture
    pictures,    ///< a picture or a list of them
    references,  ///< pictures, clips and sounds in one list, whose order counts
    clip,        ///< the frames of a clip; beside a row that is a picture, a picture
    layers,      ///< the layers of a picture, with transparency, the whole first
    mask,        ///< how much each pixel of the target counts
    sound,       ///< what is heard while the row's frames are shown
    numbers,     ///< a number or a list of them
    text,        ///< a text, or a list as JSON
    tensor,      ///< a safetensors file with one tensor
    opacity      ///< how opaque each pixel of the target is, which counts as much: a mask that no cell names
  };
  /// The way in which pictures and frames of a column are brought to size.
  enum class Fit {
    target,       ///< it is what is trained or drawn; of a sound, which is heard beside it, samples are no numbers where a row has none
    as_target,    ///< scaled and cut as the target is
    first_frame,  ///< it is the first frame of the target
    own_size,     ///< scaled and cut by its own size
    whole,        ///< neither scaled nor cut
    square,       ///< scaled and cut to a square
    alike         ///< of numbers: they are equal in all samples of a batch, as what units make of others differs in size
  };
  /// Where its cells come from, beside what they are declared for.
  enum class Given {
    always,      ///< rows of the metadata and prompts name it
    by_rows,     ///< it says of a row what is drawn says otherwise, so that no prompt names it
    by_prompts,  ///< prompts name it, and rows have it within their target
    or_white     ///< a row that leaves it empty has white pixels: a mask by which everything counts, or is replaced
  };
  /// A use that a model has for the rate of a clip's frames.
  enum class RateUse {
    none,  ///< a model counts frames, so that clips may have any rate
    read,  ///< its units read the rate of each clip, as kRateOfFrames
    fixed  ///< it counts seconds by a rate of its own, and its clips have no other
  };
  /// The lengths of a target, of a first frame how many are given: one frame, or first + k · step, at so many a second. A step of 0 stands
  /// for pictures.
  struct Frames {
    int64_t first = 1, step = 0;
    double rate = 0;
    RateUse rate_use = RateUse::none;
  };
  /// The words by which users are told of a column.
  struct Words {
    std::string needs = {};    ///< the part of a model that reads it: "a ControlNet"
    std::string example = {};  ///< what a plan without samples takes; of a tensor how many numbers, of pictures "0": none, clips "1": many
  };

  std::string name;  ///< its name in metadata and on the command line
  Is is = Is::pictures;
  Fit fit = Fit::own_size;
  Words words = {};
  std::string value = {};  ///< the name of the value that units read, where it is another than the column's
  Given given = Given::always;
  int64_t side = 0;      ///< of a square its side; of a target what its sides are multiples of
  int64_t channels = 3;  ///< numbers of a pixel; of a sound its channels
  int64_t rate = 0;      ///< samples a second of a sound, and of those among references
  Frames frames = {};

  /// Returns the name that units read it by.
  const std::string& read_as() const { return value.empty() ? name : value; }
  /// Tells whether its cells name files of pictures or clips.
  bool is_seen() const { return is <= Is::mask; }
  /// Tells whether its cells name files.
  bool names_files() const { return is_seen() || is == Is::sound || is == Is::tensor; }
  /// Returns the extent of its frames beside a target.
  Extent extent_beside(const Extent& target) const;
};
using Columns = std::vector<Column>;

/// The channels of sounds among references.
inline constexpr int64_t kSidesOfReferences = 2;

/// The value that units read the target as: what is trained or drawn.
inline const std::string kTarget = "image";
/// The value that units read the frames a second of what is trained or drawn as: a number without dimensions, fp64, one for a batch. A
/// still has as many as its model was made with.
inline const std::string kRateOfFrames = "frame_rate";
/// The value that units read the frames of what is trained or drawn as, of those that only count them: a number without dimensions.
inline const std::string kNumFrames = "num_frames";
/// The value that units read reference pictures as: those beside prompt and noise that a model is made for.
inline const std::string kReferences = "reference_images";

/// Returns the column of that name, or null.
const Column* find_column(const Columns& columns, const std::string& name);
/// Returns the column that units read by that name, or null.
const Column* find_read_as(const Columns& columns, const std::string& value);
/// Returns the column of what is trained or drawn; one of pictures where none is declared.
const Column& target_of(const Columns& columns);
/// Returns the column of masks that are gray pictures, which is named so; a row that leaves it empty counts whole.
Column mask_column(const std::string& name);
/// Returns the column of masks that are the target's own opacity.
Column opacity_column();
/// Returns the column that says how much each pixel of the target counts, or null where all count whole.
const Column* mask_of(const Columns& columns);
/// Tells whether a target of such an extent is a clip: of several frames that are no layers.
bool is_clip_of(const Column& target, const Extent& extent);

}  // namespace burnish
