#pragma once
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "report/local_server.h"

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace burnish::studio {

/// The ways by which others than a browser of this machine come to a studio.
struct Access {
  bool listens = false;                                 ///< to other machines too, which know this one by names that cannot be known here
  std::optional<report::Certificate> certificate = {};  ///< by which it speaks HTTPS
  std::string public_address = {};                      ///< "https://home.example/burnish", under which a proxy shows it; "": no proxy does
  std::string password = {};                            ///< what may be typed in place of the token; "": nothing
};

/// Reads the password in the first line of a file that only the user may read. A config Error for any other file.
std::string password_in(const std::filesystem::path& file);

/// Decides who may ask a studio for something: whoever knows its token, which a browser gets by the address that the program prints, or by
/// typing it or the password, and then keeps as a cookie, and a program sends as "Authorization: Bearer TOKEN". What changes something must
/// also come from the studio's own page (the Origin header), since a cookie is sent for a form on another site too; and names that lead
/// here without being this machine's or the proxy's are refused (DNS rebinding).
class Guard {
 public:
  /// Reads the token from a file that only the user may read, and makes it where there is none. A config Error for a public address that is
  /// none.
  Guard(const std::filesystem::path& file, int port, Access access = {});

  const std::string& token() const { return token_; }
  /// Tells whether the request may be answered; if not, the response says why (403), or, to a browser with the token in the address, leads
  /// to the page without it.
  bool admits(const httplib::Request& request, httplib::Response& response) const;
  /// Lets in who typed the token or the password, as "secret" of a form; who typed something else may try again, once a second.
  void log_in(const httplib::Request& request, httplib::Response& response);

 private:
  bool knows_token(const httplib::Request& request, bool& by_cookie) const;
  bool is_own_page(const std::string& origin, const std::string& host) const;
  void let_in(httplib::Response& response, const std::string& page) const;
  void ask_for_secret(httplib::Response& response, const std::string& why) const;

  std::string token_, cookie_;
  Access access_;
  std::string public_origin_, public_host_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_wrong_ = {};  ///< when somebody typed something else
};

}  // namespace burnish::studio
