#pragma once
#include <string>
#include <vector>

#include "data/clip.h"

namespace burnish::data {

/// What can be said of a clip before training.
struct ClipSurvey {
  std::string file;
  ClipLook look;
  std::vector<double> cuts = {};  ///< seconds after the first frame at which it is cut; numbers of frames where these have no times
};

/// Looks at every frame of a clip. It is cut where a frame differs from the one before it by 24 of 255 or more, in the mean over the grays
/// of 16 x 16 parts, and by four times as much as the frames next to them differ from theirs: motion differs all the time, and a flash
/// twice.
ClipSurvey survey_clip(const std::string& file);

}  // namespace burnish::data
