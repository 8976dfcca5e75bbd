#include "captioning/published.h"

#include <algorithm>
#include <array>

#include "io/files.h"

namespace burnish::captioning {

namespace {

struct Published {
  const char *name, *id;
};
constexpr std::array kPublished{
    Published{"Florence-2-base", "florence-community/Florence-2-base"},
    Published{"Florence-2-base-ft", "florence-community/Florence-2-base-ft"},
    Published{"Florence-2-large", "florence-community/Florence-2-large"},
    Published{"Florence-2-large-ft", "florence-community/Florence-2-large-ft"},
    Published{"JoyCaption-alpha-two", "fancyfeast/llama-joycaption-alpha-two-hf-llava"},
    Published{"JoyCaption-beta-one", "fancyfeast/llama-joycaption-beta-one-hf-llava"},
};

}  // namespace

std::string id_of(const std::string& name) {
  const auto found = std::ranges::find_if(kPublished, [&](const auto& one) { return one.name == name; });
  return found == kPublished.end() || io::is_there(name) || io::is_folder(name) ? name : found->id;
}

}  // namespace burnish::captioning
