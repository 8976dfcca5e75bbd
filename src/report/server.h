#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "report/local_server.h"

namespace burnish::report {

/// Serves the page about runs on 127.0.0.1 while they go on (add_run_pages).
class Server {
 public:
  /// Takes the port; 0 takes a free one. A data Error for what is no run and no empty folder, a config Error when the port is taken.
  Server(std::vector<std::string> runs, int64_t port);

  int port() const { return server_.port(); }
  /// Answers requests until `stop` is called from another thread.
  void serve() { server_.serve(); }
  void stop() { server_.stop(); }

 private:
  std::vector<std::string> runs_;
  LocalServer server_;
};

}  // namespace burnish::report
