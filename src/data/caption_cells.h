#pragma once
#include <nlohmann/json.hpp>

#include "data/captions.h"

namespace burnish::data {

/// Reads the captions of a row of metadata, which has these columns: a text, nothing, or a list of texts or of {text, weight}, in the
/// column prompt, caption or text. Where a rule takes one line of a text, each line is a caption of its own, and those of a text share its
/// weight. A data Error for a row without such a column, and for what is no caption.
Captions read_captions(const nlohmann::json& row, const std::vector<std::string>& columns, const CaptionRule& rule);

}  // namespace burnish::data
