#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace burnish::report {

/// Whether a request's Host header names this machine, under any port (a tunnel may have changed it). A page of another name that was made
/// to lead here (DNS rebinding) is refused by it.
bool is_loopback_host(const std::string& host);

/// Serves the page about one run on 127.0.0.1 while the run goes on: the page at /, its data as server-sent events at /events, pictures
/// at /previews/STEP/NUMBER. Nothing else of a request is read, so no path of it reaches the file system.
class Server {
 public:
  /// Takes the port; 0 takes a free one. A data Error for what is no run, a config Error when the port is taken.
  Server(std::filesystem::path run, int64_t port);
  ~Server();

  int port() const { return port_; }
  /// Answers requests until `stop` is called from another thread.
  void serve();
  void stop();

 private:
  struct Http;
  void add_routes();

  std::filesystem::path run_;
  std::unique_ptr<Http> http_;
  int port_ = 0;
};

}  // namespace burnish::report
