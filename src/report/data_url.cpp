#include "report/data_url.h"

#include <fmt/core.h>
#include <openssl/evp.h>

namespace burnish::report {

std::string data_url(std::string_view kind, std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // the function ends what it writes with a zero
  auto length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), reinterpret_cast<const unsigned char*>(bytes.data()),
                                static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return fmt::format("data:{};base64,{}", kind, text);
}

}  // namespace burnish::report
