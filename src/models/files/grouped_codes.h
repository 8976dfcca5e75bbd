#pragma once
#include "models/files/coding.h"

namespace burnish::models {

/// Finds `asym_w4a8_int8` of ComfyUI: codes of 4 bits, numbers of a table of 16, or of 6 bits, whole numbers around 32, with a scale in
/// E4M3 for each 16 neighbours of a rotated row and one for the row. A code times its neighbours' scale is a level, rounded to a whole
/// number; the levels are what INT8 (ConvRot) has (comfy-kitchen: backends/eager/w4a8_int8.py), and are held so. Codes around zeros of
/// their own
/// (`weight_correction`) are no levels, and none of these.
std::optional<CodedWeight> find_grouped(const MarkedFiles& files, const std::string& name);

}  // namespace burnish::models
