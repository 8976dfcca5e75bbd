#pragma once
#include <string>
#include <string_view>

namespace burnish::models::wan {

/// Tidies a prompt as Wan does before it is cut into tokens (Wan-Video: wan/modules/tokenizers.py, whitespace_clean of basic_clean): it is
/// mended (mended_text.h), HTML's names of characters become these, and every run of white space is one blank, with none at the ends.
std::string tidy_prompt(std::string_view text);

}  // namespace burnish::models::wan
