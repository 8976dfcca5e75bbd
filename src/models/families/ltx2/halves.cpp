#include "models/families/ltx2/halves.h"

#include <algorithm>

namespace burnish::models::ltx2 {

namespace {

/// Takes out of an entry what lies below the prefix of one of these marks.
std::optional<io::TensorSource> half_of(const ModelEntry& entry, const HalfMarks& marks, const std::vector<std::string>& half) {
  return entry.tensors ? below_first(*entry.tensors, marks.prefixes, half) : std::nullopt;
}

/// Leaves out what is neither of this half nor a statistic of latents that some code reads.
io::TensorSource run_half(const io::TensorSource& tensors, const std::string& half) {
  return tensors.renamed([&](const std::string& name) {
    const bool is_statistic = name == "latents_mean" || name == "latents_std" || name == kOriginalMean || name == kOriginalDeviation;
    return is_statistic || name.starts_with(half) ? name : std::string();
  });
}

}  // namespace

io::KeyMap original_statistics() { return io::KeyMap({{kOriginalMean, {"latents_mean"}}, {kOriginalDeviation, {"latents_std"}}}); }

Halves find_halves(const ModelFiles& files, const HalfMarks& marks) {
  Halves found;
  auto entry_with = [&](const std::vector<std::string>& half) {
    return files.find([&](const ModelEntry& entry) { return half_of(entry, marks, half).has_value(); });
  };
  found.encoder = entry_with(marks.encoder);
  found.decoder = found.encoder && half_of(*found.encoder, marks, marks.decoder) ? found.encoder : entry_with(marks.decoder);
  if (found.encoder) found.tensors = run_half(*half_of(*found.encoder, marks, marks.encoder), "encoder.");
  if (found.decoder) {
    auto half = run_half(*half_of(*found.decoder, marks, marks.decoder), "decoder.");
    found.tensors = found.tensors ? found.tensors->joined(half) : half;
  }
  found.is_original = found.tensors && found.tensors->contains(kOriginalMean);
  return found;
}

}  // namespace burnish::models::ltx2
