#include "data/found_references.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/input_error.h"
#include "data/sound.h"

namespace burnish::data {

namespace {

using Kind = Reference::Kind;

/// The samples that a file's sound has, at most so many.
int64_t count_samples(const Column& column, const std::string& file, int64_t most) {
  return std::min(most, decode_sound(file, {}, column.rate, kSidesOfReferences).size(1));
}

/// The samples that are heard while so many frames are shown.
int64_t samples_beside(const Column& column, int64_t num_frames, const Fraction& rate) {
  return num_frames * rate.den * column.rate / rate.num;
}

}  // namespace

FoundReference find_reference(const Column& column, const Reference& reference, const ClipRule& rule, const LookAt& look_at) {
  FoundReference found{.reference = reference};
  auto most_frames = std::max(rule.num_frames, rule.first_frames);
  if (!reference.seen.empty()) {
    const auto look = look_at(reference.seen);
    found.size = look.size;
    if (reference.kind != Kind::picture) {
      auto first = rule;
      first.extraction = ClipRule::Extraction::head;
      first.num_frames = most_frames;
      found.window = windows_of(first, look, reference.seen).front();
      if (found.window.count == 1)
        data_error("data", "the reference {} is a clip of {} frames, and {} are the fewest; give a longer one, or a picture",
                   reference.seen, look.num_frames, rule.first_frames);
      most_frames = found.window.count;
    }
  }
  if (!reference.heard.empty()) {
    found.num_samples = count_samples(column, reference.heard, samples_beside(column, most_frames, rule.rate));
    if (found.num_samples == 0 && reference.kind == Kind::sound)
      data_error("data", "the reference {} has no sound; name a file that has one, or take it out", reference.heard);
  }
  return found;
}

std::vector<Extent> extents_of(const FoundReference& found, const CutSizeOf& size_of) {
  const auto& [kind, seen, heard] = found.reference;
  const Extent of_sound{found.num_samples, 0, 0};
  if (kind == Kind::picture) return {extent_of(found.size)};
  if (kind == Kind::sound) return {of_sound};
  return {extent_of(size_of(seen, found.size), found.window.count), of_sound};
}

std::vector<at::Tensor> read(const Column& column, const FoundReference& found, const CutSizeOf& size_of, bool is_mirrored) {
  const auto& [kind, seen, heard] = found.reference;
  auto crop_of = [&](const std::string& file, const Size& frame) {
    auto crop = centre_crop(frame, kind == Kind::picture ? frame : size_of(file, frame));
    crop.flip = is_mirrored;
    return crop;
  };
  if (kind == Kind::picture) return {read_picture(seen, Pixels::colours, crop_of)};
  std::vector<at::Tensor> tensors;
  if (kind != Kind::sound) tensors.push_back(read_frames(seen, found.window, Pixels::colours, crop_of));
  tensors.push_back(found.num_samples == 0 ? at::zeros({kSidesOfReferences, 0})
                                           : decode_sound(heard, {}, column.rate, kSidesOfReferences).narrow(1, 0, found.num_samples));
  return tensors;
}

}  // namespace burnish::data
