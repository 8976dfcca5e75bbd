#pragma once
#include <filesystem>
#include <string>
#include <utility>

#include "studio/json_responses.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// A handler that is given the folder of a part of the workspace whose name is the first group of the address; where there is none, 404
/// with the sentence.
template <typename Handle>
httplib::Server::Handler of_folder(std::filesystem::path part, std::string missing, Handle handle) {
  return handled([part = std::move(part), missing = std::move(missing), handle](const Request& request, Response& response) {
    auto folder = Workspace::find(part, request.matches[1]);
    if (!folder && is_name(request.matches[1]) && is_taken(part / request.matches[1].str()))
      return refuse(response, 404, missing + ": the folder that it is a link to is gone");
    if (!folder) return refuse(response, 404, missing);
    handle(*folder, request, response);
  });
}

}  // namespace burnish::studio
