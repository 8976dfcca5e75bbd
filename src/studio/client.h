#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "studio/claim.h"

namespace burnish::studio {

/// An answer of the interface (docs/studio-api.md).
struct Answered {
  int status = 0;  ///< HTTP's; 0 where nobody answered
  std::string media_type = {}, body = {};
};

/// Asks for a path by a method of HTTP. `body`: a JSON object; null for a request without one.
using Ask = std::function<Answered(const std::string& method, const std::string& path, const nlohmann::json& body)>;

/// A program that asks a studio of this machine.
class Client {
 public:
  Client(Place place, std::string token) : place_(place), token_(std::move(token)) {}

  /// An Ask.
  Answered ask(const std::string& method, const std::string& path, const nlohmann::json& body) const;

 private:
  Place place_;
  std::string token_;
};

/// The studio that has a workspace open; nothing where none has.
std::optional<Client> client_of(const std::filesystem::path& workspace);

/// A name as a part of an address.
std::string in_address(const std::string& name);

}  // namespace burnish::studio
