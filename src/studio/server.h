#pragma once
#include <memory>
#include <string>

#include "report/local_server.h"
#include "studio/routes.h"
#include "studio/studio.h"

namespace burnish::studio {

/// Burnish Studio: pages on which runs are made, started, queued and followed, and the interface that they use.
class Server {
 public:
  /// Takes the port and opens the workspace. A config Error when the port cannot be had.
  explicit Server(const Options& options);

  /// All requests of the interface.
  const Routes& routes() const { return routes_; }
  /// Returns the address with the token in it.
  std::string address() const;
  /// Answers requests until `stop` is called from another thread, or the page closes the studio.
  void serve() { server_.serve(); }
  /// Jobs go on after that, or end after their step.
  void stop(bool ends_jobs = false);

 private:
  void add_pages();
  void add_routes();

  report::LocalServer server_;
  Studio studio_;
  Routes routes_;
};

}  // namespace burnish::studio
