#pragma once
#include <string>

#include "foreign/program.h"

namespace burnish::foreign::of_simpletuner {

/// The kind of model, in small letters.
std::string family(const Settings& all);
bool has_unet(const Settings& all);
/// Names the part that predicts, "dit" or "unet".
std::string denoiser(const Settings& all);
bool has_adapter(const Settings& all);
bool is_lycoris(const Settings& all);
/// Tells whether the adapter is a new LoRA.
bool is_standard(const Settings& all);

/// Carries `ours` for a value that asks for something.
Outcome if_on(const Value& value, const Value& ours);

}  // namespace burnish::foreign::of_simpletuner
