#pragma once
#include <filesystem>
#include <string>

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace burnish::studio {

/// Decides who may ask a studio for something: whoever knows its token, which a browser gets by the address that the program prints and
/// then keeps as a cookie, and a program sends as "Authorization: Bearer TOKEN". What changes something must also come from the studio's
/// own page (the Origin header), since a cookie is sent for a form on another site too; and names that lead here without being this
/// machine's are refused (DNS rebinding).
class Guard {
 public:
  /// Reads the token from a file that only the user may read, and makes it where there is none. `listens`: to other machines too, which
  /// know this one by names that cannot be known here.
  Guard(const std::filesystem::path& file, int port, bool listens);

  const std::string& token() const { return token_; }
  /// Tells whether the request may be answered; if not, the response says why (403), or, to a browser with the token in the address, leads
  /// to the page without it.
  bool admits(const httplib::Request& request, httplib::Response& response) const;

 private:
  bool knows_token(const httplib::Request& request, bool& by_cookie) const;

  std::string token_, cookie_;
  bool listens_;
};

}  // namespace burnish::studio
