#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "studio/json_responses.h"

namespace burnish::studio {

/// A member of the JSON object that a request has as its body.
struct Taken {
  enum class Kind { text, whole, truth, texts, list, object };
  std::string name;
  Kind kind;
  bool is_needed = true;
};

using Is = Taken::Kind;  ///< reads well in a table: {"name", Is::text}

/// One request of the interface (docs/studio-api.md): what a program may ask, and what it gives with that.
struct Route {
  std::string method, path;       ///< words in capitals stand for what varies in a path: "/api/runs/NAME/ask"
  std::vector<Taken> takes = {};  ///< what its body may hold
  bool takes_file = false;        ///< whether its body is a file, and no JSON
};

/// The table of all requests of the interface. Whatever is asked comes through it: a body is read and compared with what the route takes
/// before its handler is called, and what goes wrong anywhere becomes a status and a sentence here.
class Routes {
 public:
  using Handle = std::function<void(const Request&, Response&)>;
  using TakeFile = std::function<void(const Request&, Response&, const httplib::ContentReader&)>;

  /// Also answers for what fits no route.
  explicit Routes(httplib::Server& http);

  // Handlers find what varies in the path, in its order, as the request's matches from 1 on. Of two routes that an address fits, the first
  // that was added is taken.
  void get(const std::string& path, Handle handle);
  void post(const std::string& path, std::vector<Taken> takes, Handle handle);
  void put(const std::string& path, TakeFile take);
  void remove(const std::string& path, Handle handle);

  const std::vector<Route>& list() const { return list_; }
  /// [{"method", "path", "takes": [{"name", "kind", "is_needed"}], "takes_file"}].
  nlohmann::json describe() const;

 private:
  /// Says what is wrong with an address that fits no route of this method.
  void refuse_unknown(const Request& request, Response& response) const;
  std::string added(Route route);

  httplib::Server& http_;
  std::vector<Route> list_;
};

/// Returns the regular expression of the addresses of a route's path.
std::string pattern_of(const std::string& path);

}  // namespace burnish::studio
