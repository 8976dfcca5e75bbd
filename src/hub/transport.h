#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace burnish::hub {

class PartialFile;

/// A request: what is asked for, and with what right.
struct Request {
  std::string url;
  std::string token = {};  ///< a bearer token, for the host of `url` alone: it does not go along when that sends us to another; "" for none
  std::string cookie = {};                          ///< a cookie "name=value", for the host of `url` alone; "" for none
  std::string json = {};                            ///< JSON that is sent (POST); "" for a request that only asks
  std::string media_type = "application/json";      ///< what is sent
  std::map<std::string, std::string> headers = {};  ///< further ones, by their names
};

/// The answer to a request, or how it failed.
struct Answer {
  int64_t status = 0;                               ///< HTTP's status; 0 when the server did not answer
  std::string problem = {};                         ///< what went wrong on the way, in a few words; "" when all came that was announced
  std::string body = {};                            ///< a text, or what a server says of a refusal
  std::map<std::string, std::string> headers = {};  ///< names in lower case
  bool is_good() const { return status == 200 && problem.empty(); }
};

/// How long a server is asked again that fails, is busy or falls silent.
struct Patience {
  int max_attempts = 5;        ///< without a further byte of a file
  double first_delay = 1;      ///< seconds before the second attempt; each later delay is twice as long
  double longest_delay = 300;  ///< the longest delay that a server may ask for (Retry-After)
  double stall_seconds = 30;   ///< without a byte, after which a connection is given up
};

/// HTTP and HTTPS: texts, and files that are gone on with where they broke off. Failures of the network, 408, 429 and 5xx are tried again.
/// Safe to use from several threads.
class Transport {
 public:
  /// `stop` ends what is under way soon after it turns true.
  explicit Transport(
      Patience patience, std::function<bool()> stop = [] { return false; });

  Answer get(const Request& request) const;
  /// Sends the request's JSON once, in at most `stall_seconds`, and goes nowhere else than told. Nothing of the address is logged.
  Answer post(const Request& request) const;

  /// Sends the request's JSON, with what `get` tries again.
  Answer send(const Request& request) const;
  /// Sends a file (PUT), from its beginning again with what `get` tries again. `gone` is told of the bytes that went, which may shrink.
  Answer upload(const Request& request, const std::filesystem::path& file, const std::function<void(int64_t)>& gone) const;

  /// Appends to `file` what it lacks of its `size` bytes (-1: not known), asking for the rest alone where something is there. The answer is
  /// good when the file has its size. `more` is told of every change of the file's size, which may shrink when a server begins anew.
  Answer download(const Request& request, PartialFile& file, int64_t size, const std::function<void(int64_t)>& more) const;

 private:
  void wait(double seconds) const;
  bool try_again(const Request& request, const Answer& answer, int attempt) const;

  Patience patience_;
  std::function<bool()> stop_;
};

}  // namespace burnish::hub
