#include "io/files.h"
#include "studio/dataset_handlers.h"
#include "studio/masks.h"

namespace burnish::studio {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostOfAMask = size_t{64} << 20;

/// Answers with the mask as it lies there; with ?side= as a PNG picture of at most so many pixels a side.
void show(Studio& studio, const Item& item, const Request& request, Response& response) {
  const auto mask = mask_of(item.path);
  if (!mask) return refuse(response, 404, "this picture has no mask");
  if (!request.has_param("side")) return response.set_content(io::read_text(*mask), "application/octet-stream");
  response.set_header("Cache-Control", "private, max-age=86400");
  response.set_content(studio.thumbnails.mask(*mask, side_of(request)), "image/png");
}

void take(const Item& item, Response& response, const httplib::ContentReader& read) {
  std::string bytes;
  const bool is_whole = read([&](const char* piece, size_t count) {
    if (bytes.size() + count > kMostOfAMask) return false;
    bytes.append(piece, count);
    return true;
  });
  if (!is_whole) refuse_with(413, "the mask broke off, or is larger than 64 MiB");
  write_mask(item.path, bytes);
  done(response);
}

}  // namespace

void add_mask_routes(Routes& routes, Studio& studio) {
  const std::string mask = "/api/datasets/NAME/items/ITEM/mask";
  routes.get(mask, of_item(studio, [&studio](const fs::path&, const Item& item, const Request& request, Response& response) {
               show(studio, item, request, response);
             }));
  routes.put(mask, [&studio](const Request& request, Response& response, const httplib::ContentReader& read) {
    of_item(studio, [&read](const fs::path&, const Item& item, const Request&, Response& answered) { take(item, answered, read); })(
        request, response);
  });
  routes.remove(mask, of_item(studio, [](const fs::path&, const Item& item, const Request&, Response& response) {
                  remove_mask(item.path);
                  done(response);
                }));
}

}  // namespace burnish::studio
