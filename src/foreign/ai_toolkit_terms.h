#pragma once
#include "foreign/table.h"

namespace burnish::foreign {

/// The rows of ai-toolkit's keys that hold a model to what it was.
std::vector<Row> ai_toolkit_preservation_rows();
/// The rows of its keys of losses under guidance; a range of scales is a list of two.
std::vector<Row> ai_toolkit_guidance_rows();

/// The rows of its keys of concept sliders, which see the pictures of the dataset.
std::vector<Row> ai_toolkit_slider_rows();

}  // namespace burnish::foreign
