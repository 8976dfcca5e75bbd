#pragma once
#include <string>

namespace burnish::tokenizers {

/// Mends a text as ftfy does (the version that mended_text.rules names): UTF-8 that was decoded as another encoding, HTML's names in texts
/// without "<", ligatures, wide letters, quotes that curl, commands to a terminal and characters that control one.
std::u32string mended(const std::u32string& text);

}  // namespace burnish::tokenizers
