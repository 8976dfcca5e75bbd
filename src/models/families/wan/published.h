#pragma once
#include "models/model/family.h"

namespace burnish::models::wan {

/// The class that config.json names for Wan-Animate-2's transformer, whose shapes are those of others.
inline constexpr const char* kDrivenClass = "WanAnimate2Transformer3DModel";

/// The models of Wan that are known by their names.
std::vector<Variant> published();

}  // namespace burnish::models::wan
