#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace burnish::report {

/// Tells whether a request's Host header names this machine, under any port (a tunnel may have changed it). A page of another name that was
/// made to lead here (DNS rebinding) is refused by it.
bool is_loopback_host(const std::string& host);

/// Serves the page about runs on 127.0.0.1 while they go on: the page at /, its data as server-sent events at /events, pictures at
/// /previews/RUN/STEP/NUMBER. An event is what RunFollower::next gives, with the run's number as "run"; those of all runs from their
/// start come first, in order. Nothing else of a request is read, so no path of it reaches the file system.
class Server {
 public:
  /// Takes the port; 0 takes a free one. A data Error for what is no run and no empty folder, a config Error when the port is taken.
  Server(std::vector<std::string> runs, int64_t port);
  ~Server();

  int port() const { return port_; }
  /// Answers requests until `stop` is called from another thread.
  void serve();
  void stop();

 private:
  struct Http;
  void add_routes();
  void add_preview_routes();

  std::vector<std::string> runs_;
  std::unique_ptr<Http> http_;
  int port_ = 0;
};

}  // namespace burnish::report
