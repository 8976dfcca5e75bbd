#pragma once
#include <string>
#include <vector>

#include "foreign/program.h"

namespace burnish::foreign::of_kohya {

/// Tells what kind of model settings train: sd15, sdxl, flux, sd3, anima, or "" where nothing says it.
std::string kind_of(const Settings& all);
bool flows(const Settings& all);
bool is_conditioned(const Settings& all);
bool has_three_encoders(const Settings& all);
bool is_xl(const Settings& all);
/// Names the part that predicts, "dit" or "unet".
std::string denoiser(const Settings& all);

bool trains_whole(const Settings& all);
bool trains_word(const Settings& all);
/// Names the text encoders that train.
std::vector<std::string> text_encoders(const Settings& all);
bool encoders_train(const Settings& all);
/// Names all parts that train, with commas between them.
std::string trained_parts(const Settings& all);
std::string note_on_parts(const Settings& all);

}  // namespace burnish::foreign::of_kohya
