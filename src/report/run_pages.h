#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace httplib {
class Server;
struct Request;
}  // namespace httplib

namespace burnish::report {

/// How many pages are open on a server, each of which keeps one of its threads.
struct OpenPages {
  int64_t most = 0;                      ///< the oldest makes way for one more
  std::atomic<int64_t> num_opened = {};  ///< so far
};

/// The pages about runs that a server shows.
struct RunPages {
  std::string prefix = {};  ///< of their addresses: a regular expression, with `num_groups` groups
  size_t num_groups = 0;
  std::function<std::vector<std::string>(const httplib::Request&)>
      runs;                 ///< folders of the runs that are asked for; none: there is no such page
  std::string script = {};  ///< address, from the server's first page on, of a script that a page has beside its own; "": none
  std::shared_ptr<OpenPages> open;
};

/// Answers for such pages: the page at PREFIX/, its data as server-sent events at PREFIX/events, pictures at
/// PREFIX/previews/RUN/STEP/NUMBER. An event is what RunFollower::next gives, with the run's number as "run"; those of all runs from their
/// start come first, in order. Nothing else of a request is read, so no path of it reaches the file system but through `runs`.
void add_run_pages(httplib::Server& server, const RunPages& pages);

}  // namespace burnish::report
