#pragma once
#include <functional>
#include <vector>

#include "data/read.h"
#include "data/references.h"

namespace burnish::data {

/// A reference whose files were looked at.
struct FoundReference {
  Reference reference;
  Size size = {};           ///< of a picture or a clip before it is scaled and cut
  ClipWindow window = {};   ///< frames that are taken of a clip
  int64_t num_samples = 0;  ///< samples that are taken of its sound
};
/// Says what there is to find in a clip's or picture's file.
using LookAt = std::function<ClipLook(const std::string& file)>;
/// Looks at a reference: of a clip the first frames are taken, at most as many as `rule` says, and of a sound what is heard in that time.
FoundReference find_reference(const Column& column, const Reference& reference, const ClipRule& rule, const LookAt& look_at);

/// Returns how the files of a reference are cut: pictures are whole, clips as `size_of` says.
using CutSizeOf = std::function<Size(const std::string& file, const Size& frame)>;
/// Returns the extents of what `read` makes of it: of a sound as many frames of no height as it has samples.
std::vector<Extent> extents_of(const FoundReference& found, const CutSizeOf& size_of);
/// Reads a reference: a picture uint8 [H, W, 3]; a clip [F, H, W, 3] and behind it its sound, of no samples where it has none; a sound fp32
/// [2, N].
std::vector<at::Tensor> read(const Column& column, const FoundReference& found, const CutSizeOf& size_of, bool is_mirrored);

}  // namespace burnish::data
