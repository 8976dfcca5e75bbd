#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace httplib {
class Server;
struct Response;
}  // namespace httplib

namespace burnish::report {

/// Tells whether a request's Host header names this machine, under any port (a tunnel may have changed it). A page of another name that was
/// made to lead here (DNS rebinding) is refused by it.
bool is_loopback_host(const std::string& host);

/// Answers with these bytes as they are. Left to itself the library compresses texts for browsers, which takes it three seconds for a list
/// of ten thousand pictures, and a page on this machine takes that in a few milliseconds.
void send_whole(httplib::Response& response, std::string bytes, const std::string& media_type);

/// The files, in PEM, by which a server is known to browsers and keeps what travels to itself.
struct Certificate {
  std::string chain, key;
};

/// An HTTP server on a port of its own.
class LocalServer {
 public:
  /// Takes the port of an address; 0 takes a free one. A config Error of the verb when it cannot be had, or the certificate cannot be used.
  /// `num_threads` answer; with a certificate they speak HTTPS.
  LocalServer(const char* verb, const std::string& address, int64_t port, size_t num_threads,
              const std::optional<Certificate>& certificate = std::nullopt);
  ~LocalServer();

  httplib::Server& http() { return *http_; }
  int port() const { return port_; }
  /// Answers requests until `stop` is called from another thread, also before this one has begun.
  void serve();
  void stop();

 private:
  std::unique_ptr<httplib::Server> http_;
  size_t num_threads_;
  int port_ = 0;
  std::atomic<bool> stops_ = false, serves_ = false;
};

}  // namespace burnish::report
