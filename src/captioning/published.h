#pragma once
#include <string>

namespace burnish::captioning {

/// Returns the id on a hub of a Florence-2 or a JoyCaption that is named without its author, "Florence-2-base"; the name itself where it is
/// none, or something of that name is there.
std::string id_of(const std::string& name);

}  // namespace burnish::captioning
