#include <fmt/core.h>

#include "data/image.h"
#include "io/files.h"
#include "studio/arrival.h"
#include "studio/bin.h"
#include "studio/dataset_handlers.h"
#include "studio/masks.h"

namespace burnish::studio {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostOfNewPixels = size_t{512} << 20;

/// Moves a picture and its mask, which is of its size, into the bin; its caption stays. Returns its id there.
std::string bin_pixels(const Studio& studio, const fs::path& dataset, const Item& item) {
  if (fs::is_symlink(dataset))
    refuse_with(409, "what lies in a linked folder is not replaced; copy the picture into a dataset of the studio");
  const auto folder = studio.workspace.bin() / ("pictures of " + dataset.filename().string());
  const auto own = item.path.stem().string();
  for (int number = 1;; ++number) {
    const auto stem = number == 1 ? own : fmt::format("{}-{}", own, number);
    std::vector<Move> moves;
    if (const auto mask = mask_of(item.path)) moves.push_back({*mask, folder / (stem + mask->filename().string().substr(own.size()))});
    moves.push_back({item.path, folder / (stem + item.path.extension().string())});
    if (const auto id = move_to_bin(studio.workspace, moves)) return *id;
  }
}

/// Takes other pixels for a picture; those that it had lie in the bin, with the mask that was of their size.
void replace_pixels(const Studio& studio, const fs::path& dataset, const Item& item, Response& response,
                    const httplib::ContentReader& read) {
  const auto name = item.path.filename().string();
  const Arrival arrival(item.path.parent_path());
  take_file(arrival.path(), name, kMostOfNewPixels, read);
  data::image_size(arrival.path());  // throws for what is no picture
  const auto id = bin_pixels(studio, dataset, item);
  if (!arrival.settle_as(name)) return refuse(response, 409, fmt::format("something else is called {} meanwhile", name));
  answer(response, {{"bin", id}});
}

/// Brings the pixels back that a picture had; those that it has now go into the bin.
void restore_pixels(const Studio& studio, const fs::path& dataset, const Item& item, const Request& request, Response& response) {
  const auto id = body_of(request).at("bin").get<std::string>();
  const auto other = bin_pixels(studio, dataset, item);
  try {
    bring_back(studio.workspace, id);
  } catch (...) {
    bring_back(studio.workspace, other);
    throw;
  }
  answer(response, {{"bin", other}});
}

}  // namespace

void add_picture_routes(Routes& routes, Studio& studio) {
  const std::string item = kItem;
  routes.put(item + "/picture", [&studio](const Request& request, Response& response, const httplib::ContentReader& read) {
    of_item(studio, [&](const fs::path& dataset, const Item& picture, const Request&, Response& answered) {
      replace_pixels(studio, dataset, picture, answered, read);
    })(request, response);
  });
  routes.post(item + "/restore", {{"bin", Is::text}},
              of_item(studio, [&studio](const fs::path& dataset, const Item& picture, const Request& request, Response& response) {
                restore_pixels(studio, dataset, picture, request, response);
              }));
}

}  // namespace burnish::studio
