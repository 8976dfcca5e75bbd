#pragma once
#include "data/dataset.h"
#include "data/read.h"

namespace burnish::data {

/// The most variants that a subset asks for; those of a subset without augmentation are equal.
int64_t num_variants(const Dataset& dataset);
/// Says how a variant of a row's target is cut; without augmentation every variant is the centre.
Crop crop_of(const Dataset& dataset, int64_t row, int64_t variant = 0);
/// Returns the frames a second that are taken of a row's clip, an eighth being the least difference where it is slower than it is asked to
/// be; numbered frames are shown as fast as they are asked for, and so is a still.
double frame_rate(const Dataset& dataset, int64_t row);
/// Says how each of a row's pictures in a column of several is cut: the centre, of the size that its subset's rule gives a picture like it,
/// or all of it where they are whole, mirrored where the row's target is.
std::vector<Crop> picture_crops(const Dataset& dataset, int64_t row, const Column& column, int64_t variant = 0);

/// Says how clips among a row's references are cut, and the extents of what `read` makes of these references.
CutSizeOf reference_size(const Dataset& dataset, int64_t row);
std::vector<Extent> reference_extents(const Dataset& dataset, int64_t row);

/// Reads what a row has in a column, or its target, as a variant of it is cut.
///
/// What is cut as the target is has the frames that are taken of it; each of its frames where masks are clips or the transparency of
/// layers. A list of pictures that is left empty has none; a mask that is left empty is an undefined tensor, and counts whole. A data Error
/// when the row is not usable, or has no picture in a column of one.
Cell read(const Dataset& dataset, int64_t row, const Column& column, int64_t variant = 0);

/// Names the content that `read` reads, for keys of what is made of it; "" where the row has nothing there.
std::string content(const Dataset& dataset, int64_t row, const Column& column, int64_t variant, const RowHashes& hashes);
/// Names how a variant of a row is cut: "cut to 512x512 from 3,0 mirrored".
std::string content_of_crop(const Dataset& dataset, int64_t row, int64_t variant);

/// Returns what stands in a row's cell of a value, a text without blanks around it.
nlohmann::json trimmed(const nlohmann::json& cell);

}  // namespace burnish::data
