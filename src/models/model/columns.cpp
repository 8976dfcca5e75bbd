#include "models/model/columns.h"

#include <vector>

namespace burnish::models {

namespace {

using Is = Column::Is;
using Fit = Column::Fit;

Column reference_of(const Model& model, const Column& target) {
  Column column{.name = model.names().references.column, .is = Is::pictures, .fit = model.scales_references() ? Fit::whole : Fit::own_size};
  if (model.names().references.are_as_target) column.fit = Fit::as_target;
  column.value = kReferences;
  column.channels = target.channels;
  column.rate = model.names().references.sound_rate;
  if (column.rate > 0) {
    column.is = Is::references;
    column.fit = Fit::own_size;
    return column;
  }
  if (target.frames.step == 0) return column;
  column.fit = Fit::first_frame;
  column.frames.first = model.latent_space().streams.front().held.num_frames;
  if (target.is == Is::clip) column.given = Column::Given::by_prompts;
  return column;
}

}  // namespace

Column target_of(const LatentSpace& space) {
  Column target{.name = kTarget, .is = Is::picture, .fit = Fit::target};
  target.side = space.side;
  target.frames = {space.first_frames, space.frames_step, space.frame_rate, space.rate_use};
  target.channels = space.pixel_channels();
  if (space.has_layers) target.is = Is::layers;
  else if (space.frames_step > 0) target.is = Is::clip;
  return target;
}

Columns columns_of(const Model& model) {
  Columns columns{target_of(model.latent_space())};
  if (!model.names().references.column.empty()) columns.push_back(reference_of(model, columns.front()));
  columns.insert(columns.end(), model.names().extra_inputs.begin(), model.names().extra_inputs.end());
  return columns;
}

Columns columns_of_rows(Columns columns) {
  std::erase_if(columns, [](const auto& column) { return column.given == Column::Given::by_prompts; });
  return columns;
}

}  // namespace burnish::models
