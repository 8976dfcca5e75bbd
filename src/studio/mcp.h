#pragma once
#include <functional>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "studio/client.h"

namespace burnish::studio {

/// A server of the Model Context Protocol, by which an assistant uses a studio: JSON-RPC 2.0, a message a line. It does nothing itself; its
/// tools are requests of the studio's interface (mcp_tools.h). Source: modelcontextprotocol.io, versions 2024-11-05 to 2025-06-18.
class Mcp {
 public:
  /// `options` are those of training, as config::to_json lists them.
  Mcp(Ask ask, nlohmann::json options) : ask_(std::move(ask)), options_(std::move(options)) {}

  /// The answer to a line; nothing for what wants none. Whatever the line holds, it is answered or left.
  std::optional<std::string> answer(const std::string& line) const;
  /// Answers every line, one after the other, until there are no more, or `say`, which takes a line, returns false.
  void serve(std::istream& in, const std::function<bool(const std::string& line)>& say) const;

 private:
  nlohmann::json answer_message(const nlohmann::json& message) const;
  nlohmann::json result_of(const std::string& method, const nlohmann::json& parameters) const;

  Ask ask_;
  nlohmann::json options_;
};

}  // namespace burnish::studio
