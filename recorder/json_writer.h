// Writes JSON text with a few calls: small enough for the preload object. Integers and texts only, as the
// formats want.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace swapadvisor {

class JsonWriter {
  public:
    JsonWriter& object() { return open('{'); }
    JsonWriter& array() { return open('['); }
    JsonWriter& end_object() { return close('}'); }
    JsonWriter& end_array() { return close(']'); }
    JsonWriter& key(std::string_view name);
    JsonWriter& value(std::int64_t number);
    JsonWriter& value(std::string_view text);
    JsonWriter& value(const char* text) { return value(std::string_view(text)); }
    JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
    JsonWriter& boolean(bool b);
    template <class T>
    JsonWriter& field(std::string_view name, const T& v) {
        key(name);
        return value(v);
    }
    JsonWriter& field(std::string_view name, bool b) = delete;  // say flag()
    JsonWriter& flag(std::string_view name, bool b) { return key(name).boolean(b); }
    JsonWriter& newline() {  // whitespace for people, where the next element starts
        newline_ = true;
        return *this;
    }
    const std::string& text() const { return out_; }
    std::string take() { return std::move(out_); }

  private:
    JsonWriter& open(char c);
    JsonWriter& close(char c);
    void separate();
    std::string out_;
    bool first_ = true;  // nothing yet in the open object or array
    bool after_key_ = false;
    bool newline_ = false;
};

/// `text` as a JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD; '<' is escaped so that the
/// result may stand inside an HTML script.
std::string json_string(std::string_view text);

/// Bytes that are no UTF-8 become U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace swapadvisor
