#include "data/dataset_options.h"

#include <algorithm>

#include "base/input_error.h"

namespace burnish::data {

bool reads_clips(const std::vector<Subset>& subsets) {
  return std::ranges::any_of(subsets, [](const auto& subset) { return subset.clips.step > 0; });
}

void fit(Subset& subset, const Column& target) {
  const auto num_frames = subset.clips.num_frames;
  if (target.frames.step == 0 && num_frames > 1)
    config_error("train", "num_frames {} asks for clips, and this model makes pictures; take num_frames out, or name a model of clips",
                 num_frames);
  subset.size.division = target.side;
  subset.clips.step = target.is == Column::Is::clip ? target.frames.step : 0;
  subset.clips.first_frames = target.frames.first;
  take_rate_of_model(subset.clips, target.frames.rate);
  subset.caption_files.with_videos = target.is == Column::Is::clip;
  subset.caption_files.with_layers = target.is == Column::Is::layers;
}

}  // namespace burnish::data
