#include "models/families/wan/prompt.h"

#include "models/families/wan/html_text.h"
#include "models/families/wan/mended_text.h"
#include "models/families/wan/text_rules.h"
#include "tokenizers/white_space.h"

namespace burnish::models::wan {

std::string tidy_prompt(std::string_view text) {
  const auto plain = unescaped(unescaped(mended(characters_of(text))));
  std::u32string out;
  bool is_apart = false;
  for (const auto c : plain) {
    if (tokenizers::is_white_space(static_cast<int32_t>(c))) {
      is_apart = !out.empty();
      continue;
    }
    if (is_apart) out += U' ';
    is_apart = false;
    out += c;
  }
  return utf8_of(out);
}

}  // namespace burnish::models::wan
