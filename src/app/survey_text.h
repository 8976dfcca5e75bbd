#pragma once
#include <string>

#include "data/survey.h"

namespace burnish::app {

/// Says in two lines how many pictures there are, of what sizes, and what becomes of them.
std::string text_of_sizes(const data::Survey& survey, const data::Dataset& dataset);

/// Returns a line for each clip: its frames, rate, length and size, and where it is cut; "" where there are none.
std::string text_of_clips(const data::Survey& survey);

/// Lists samples that cannot be used and pictures that look the same; "" where there are none.
std::string text_of_problems(const data::Survey& survey, const data::Dataset& dataset);

}  // namespace burnish::app
