#include "models/families/wan/source_units.h"

#include "base/input_error.h"
#include "models/families/wan/frames.h"

namespace burnish::models::wan {

namespace {

constexpr const char* kSourceLatents = "source_latents";

/// Makes the latents of each sample's sources, clips before pictures: lists of [C, f, h, w].
pipeline::Unit sources_unit(const ModelParts& parts, bool has_clip, bool has_pictures) {
  pipeline::Unit unit{"encode_sources", {}, {kSourceLatents}, {parts.vae}};
  if (has_clip) unit.reads.emplace_back(kSourceClip);
  if (has_pictures) unit.reads.emplace_back(kSourcePictures);
  unit.run = [=](pipeline::Scope& s) {
    s.uses(parts.vae);
    auto encoded = [&](const at::Tensor& one) { return parts.latents_of(as_clip(one.unsqueeze(0))).squeeze(0); };
    pipeline::TensorLists all;
    if (has_clip) {
      for (const auto& clip : s.tensor(kSourceClip).unbind()) all.push_back({encoded(clip)});
    }
    if (has_pictures) {
      const auto& pictures = s.lists(kSourcePictures);
      all.resize(pictures.size());
      for (size_t b = 0; b < pictures.size(); ++b) {
        for (const auto& picture : pictures[b]) all[b].push_back(encoded(picture));
      }
    }
    s.write(kSourceLatents, std::move(all));
  };
  return unit;
}

}  // namespace

SourceUnits::SourceUnits(const ModelOptions& options, Components& components, const Config& dit, bool has_dit)
    : SideModule(options, components) {
  if (!reads() || !has_dit) return;
  const auto& x = dit.extras;
  const bool is_plain = dit.in_channels == dit.out_channels && dit.image_width == 0 && !x.has_reference && !x.has_camera &&
                        x.area_channels == 0 && !x.driving.is_read && !x.speech.is_there() && !x.talk.is_there();
  if (!is_plain)
    config_error(
        "models",
        "{} and {} are of Bernini-R, whose transformer reads noise and texts alone, as Wan 2.2 T2V's does, and this one reads more; "
        "take them out, or name another model",
        kSourceClip, kSourcePictures);
  if (options.references)
    config_error("models", "input_image is a clip's first frame, which Bernini-R is given by {} or {}; take input_image out", kSourceClip,
                 kSourcePictures);
}

std::string SourceUnits::variant(bool has_experts) const { return !reads() ? "" : has_experts ? "Bernini-R" : "Bernini-R-1.3B"; }

void SourceUnits::add_names(Names& names) const {
  if (!reads()) return;
  for (const auto& input : kSourceInputs) {
    if (has(input.name)) names.extra_inputs.push_back(input);
  }
  names.values[kSourceLatents] = {};
}

void SourceUnits::add_units(UnitGroups& groups, const ModelParts& parts) {
  if (reads()) add_encoding(groups, {sources_unit(parts, has(kSourceClip), has(kSourcePictures))});
}

void SourceUnits::give(pipeline::Scope& scope, const std::string&, Transformer::Inputs& in) {
  if (!reads()) return;
  for (const auto& latents : stack_lists(scope.lists(kSourceLatents))) in.sources_BCFHW.push_back(latents.to(options_.device));
}

}  // namespace burnish::models::wan
