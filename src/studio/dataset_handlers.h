#pragma once
#include "studio/json_responses.h"
#include "studio/routes.h"
#include "studio/studio.h"
#include "studio/workspace_handlers.h"

namespace burnish::studio {

inline constexpr const char* kDataset = "/api/datasets/NAME";
inline constexpr const char* kItem = "/api/datasets/NAME/items/ITEM";

inline constexpr const char* kNoDataset = "there is no such dataset";

/// The longest side of a picture as a page shows it: among many, or alone (`?side=`).
inline int64_t side_of(const Request& request) {
  return request.get_param_value("side") == "1280" ? Thumbnails::kAlone : Thumbnails::kAmongMany;
}

/// A handler that is given the folder of the dataset which the address names; 404 where there is none.
template <typename Handle>
httplib::Server::Handler of_dataset(const Studio& studio, Handle handle) {
  return of_folder(studio.workspace.datasets(), kNoDataset, handle);
}

/// A handler that is given the folder, and the picture or clip of it that the address names.
template <typename Handle>
httplib::Server::Handler of_item(const Studio& studio, Handle handle) {
  return of_dataset(studio, [handle](const std::filesystem::path& folder, const Request& request, Response& response) {
    auto item = Datasets::find(folder, request.matches[2]);
    if (!item) return refuse(response, 404, "there is no such picture");
    handle(folder, *item, request, response);
  });
}

}  // namespace burnish::studio
