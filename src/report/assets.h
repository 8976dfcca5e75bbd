#pragma once
#include <string_view>

namespace burnish::report {

// The files of src/report/page/, in the program: CMake writes them into a source file.
extern const std::string_view kHtml, kCss;
extern const std::string_view kScript;  ///< all scripts, as one module

}  // namespace burnish::report
