#pragma once
#include <filesystem>
#include <string>

#include "hub/settings.h"

namespace burnish::hub {

/// A model of one's own on Hugging Face.
struct Publication {
  std::string id;           ///< "author/model"
  bool is_private = false;  ///< whether it is for its author alone, where it is made by this
  std::string message;      ///< says what the commit brings
};

/// Refuses what cannot be published before anything is asked: an id that is none, no token, settings that forbid to ask. A config Error.
void check_publication(const Publication& publication, const Settings& settings);

/// Sends the files of a folder, as one commit; a model that is not there is made, and files of it that the folder does not have stay.
/// Returns the address of the model's page. A data Error when the hub refuses; what came of large files need not be sent again.
std::string publish(const std::filesystem::path& folder, const Publication& publication, const Settings& settings);

}  // namespace burnish::hub
