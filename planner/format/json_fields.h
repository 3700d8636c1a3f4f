// Reading JSON documents strictly: every failure is a PlanError of one line that begins with the path of the
// field, as in `ops[12].reads[0]: tensor 999 does not exist (the graph has 10)`. Internal to the .cpp files
// that read JSON (it pulls in nlohmann-json). Thread-safe on distinct documents.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace swapadvisor::planner {

using Json = nlohmann::json;

/// Parses one document. Refuses what is not JSON, a repeated key in an object, and nesting deeper than 100
/// (so that nothing later can overflow the stack). `what` names the document in messages ("graph").
Json parse_document(const std::string& text, const char* what);

/// Text as a JSON string literal, invalid UTF-8 replaced: also the safe way to quote foreign text in a
/// message.
std::string json_text(std::string_view text);
/// The same, cut to a length that fits a message.
std::string short_text(std::string_view text);

/// One value of a document and how to name it. Holds references: the document and the parents must outlive
/// it.
class Field {
  public:
    Field(const Json& root, const char* document) : value_(root), key_(document) {}

    std::string path() const;
    [[noreturn]] void fail(const std::string& problem) const;

    const Json& raw() const { return value_; }
    Field at(const char* key) const;                    ///< a required field of an object
    std::optional<Field> maybe(const char* key) const;  ///< an optional one
    std::size_t size() const;                           ///< of an array; refuses anything else
    Field operator[](std::size_t index) const { return Field(value_[index], this, nullptr, index); }

    std::int64_t integer(std::int64_t least, std::int64_t most) const;
    bool boolean() const;
    std::string text() const;

    /// The fields of an object outside `known`, as JSON text; "" if there are none.
    std::string unknown(std::initializer_list<const char*> known) const;

  private:
    Field(const Json& value, const Field* parent, const char* key, std::size_t index)
        : value_(value), parent_(parent), key_(key), index_(index) {}
    void require_object() const;

    const Json& value_;
    const Field* parent_ = nullptr;
    const char* key_ = nullptr;  ///< null: an element of an array
    std::size_t index_ = 0;
};

/// Refuses another `format` or a `version` above `newest`.
void check_header(const Field& root, const char* format, int newest);

using ElementExtras = std::vector<std::pair<std::string, std::string>>;
/// Notes the unknown fields of `field` under its path.
void keep_unknown(const Field& field, std::initializer_list<const char*> known, ElementExtras& extras);

/// Writes kept fields back: text to splice in before the closing brace (",\"a\":1" or ""). Fields in `known`
/// and text that is not a JSON object are left out.
std::string splice(const std::string& extra, std::initializer_list<const char*> known);
/// Looks a path up in extras; they are looked up in any order.
class ExtraLookup {
  public:
    explicit ExtraLookup(const ElementExtras& extras);
    std::string operator()(const std::string& path, std::initializer_list<const char*> known) const;
    std::string operator()(const char* list, std::size_t index,
                           std::initializer_list<const char*> known) const;

  private:
    std::vector<std::pair<std::string_view, std::string_view>> sorted_;
};

}  // namespace swapadvisor::planner
