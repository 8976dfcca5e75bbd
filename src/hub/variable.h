#pragma once
#include <initializer_list>
#include <string>

namespace burnish::hub {

/// Returns the value of the first of the environment's variables that is set and not empty, without blanks around it; else `otherwise`.
std::string variable(std::initializer_list<const char*> names, const std::string& otherwise = "");

}  // namespace burnish::hub
