#include "planner/format/json_fields.h"

#include <algorithm>
#include <limits>

#include "planner/model/plan_error.h"

namespace swapadvisor::planner {
namespace {

constexpr std::size_t deepest = 100;

// Builds the document value by value. nlohmann's own builder keeps the last of repeated keys and any depth.
class Builder final : public nlohmann::json_sax<Json> {
  public:
    explicit Builder(std::string what) : what_(std::move(what)) {}
    Json root;

    bool null() override { return put(Json()); }
    bool boolean(bool v) override { return put(Json(v)); }
    bool number_integer(number_integer_t v) override { return put(Json(v)); }
    bool number_unsigned(number_unsigned_t v) override { return put(Json(v)); }
    bool number_float(number_float_t v, const string_t&) override { return put(Json(v)); }
    bool string(string_t& v) override { return put(Json(std::move(v))); }
    bool binary(binary_t&) override { return false; }
    bool key(string_t& name) override {
        Json& object = *open_.back();
        if (object.contains(name))
            throw PlanError(what_ + ": key " + short_text(name) + " appears twice in one object");
        slot_ = &object[name];
        return true;
    }
    bool start_object(std::size_t) override { return open(Json::object()); }
    bool start_array(std::size_t) override { return open(Json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
        std::string text = error.what();
        if (auto at = text.find("] "); at != std::string::npos) text.erase(0, at + 2);
        if (text.size() > 200) text = text.substr(0, 200) + "...";
        throw PlanError(what_ + ": not valid JSON: " + text);
    }

  private:
    Json* place(Json&& value) {
        if (open_.empty()) {
            root = std::move(value);
            return &root;
        }
        if (open_.back()->is_array()) {
            open_.back()->push_back(std::move(value));
            return &open_.back()->back();
        }
        *slot_ = std::move(value);
        return slot_;
    }
    bool put(Json&& value) {
        place(std::move(value));
        return true;
    }
    bool open(Json&& value) {
        if (open_.size() >= deepest)
            throw PlanError(what_ + ": nested deeper than " + std::to_string(deepest) + " levels");
        open_.push_back(place(std::move(value)));
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    std::string what_;
    std::vector<Json*> open_;  // stable: only the innermost container grows
    Json* slot_ = nullptr;
};

bool is_known(const std::string& key, std::initializer_list<const char*> known) {
    return std::any_of(known.begin(), known.end(), [&](const char* name) { return key == name; });
}

const char* type_name(const Json& value) {
    if (value.is_number_float()) return "a number that is not an integer or too large for 64 bits";
    if (value.is_number()) return "a number";
    if (value.is_string()) return "text";
    if (value.is_boolean()) return "true or false";
    if (value.is_array()) return "a list";
    if (value.is_object()) return "an object";
    return "null";
}

}  // namespace

Json parse_document(const std::string& text, const char* what) {
    Builder builder(what);
    if (!Json::sax_parse(text, &builder)) throw PlanError(std::string(what) + ": not valid JSON");
    return std::move(builder.root);
}

std::string json_text(std::string_view text) {
    return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string short_text(std::string_view text) {
    constexpr std::size_t longest = 60;
    if (text.size() <= longest) return json_text(text);
    return json_text(std::string(text.substr(0, longest)) + "...");
}

std::string Field::path() const {
    if (parent_ == nullptr) return {};
    std::string prefix = parent_->path();
    if (key_ == nullptr) return prefix + "[" + std::to_string(index_) + "]";
    return prefix.empty() ? std::string(key_) : prefix + "." + key_;
}

void Field::fail(const std::string& problem) const {
    const std::string where = path();
    const Field* root = this;
    while (root->parent_ != nullptr) root = root->parent_;
    throw PlanError((where.empty() ? std::string(root->key_) : where) + ": " + problem);
}

void Field::require_object() const {
    if (!value_.is_object()) fail(std::string("expected an object, found ") + type_name(value_));
}

Field Field::at(const char* key) const {
    require_object();
    auto it = value_.find(key);
    if (it == value_.end()) fail("field \"" + std::string(key) + "\" is missing");
    return Field(*it, this, key, 0);
}

std::optional<Field> Field::maybe(const char* key) const {
    require_object();
    auto it = value_.find(key);
    if (it == value_.end()) return std::nullopt;
    return Field(*it, this, key, 0);
}

std::size_t Field::size() const {
    if (!value_.is_array()) fail(std::string("expected a list, found ") + type_name(value_));
    return value_.size();
}

std::int64_t Field::integer(std::int64_t least, std::int64_t most) const {
    if (!value_.is_number_integer()) fail(std::string("expected an integer, found ") + type_name(value_));
    if (value_.is_number_unsigned() &&
        value_.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        fail("the number is too large for 64 bits");
    const auto number = value_.get<std::int64_t>();
    if (number < least) {
        if (least == 0) fail("must not be negative, found " + std::to_string(number));
        fail("must be at least " + std::to_string(least) + ", found " + std::to_string(number));
    }
    if (number > most) fail("must be at most " + std::to_string(most) + ", found " + std::to_string(number));
    return number;
}

bool Field::boolean() const {
    if (!value_.is_boolean()) fail(std::string("expected true or false, found ") + type_name(value_));
    return value_.get<bool>();
}

std::string Field::text() const {
    if (!value_.is_string()) fail(std::string("expected text, found ") + type_name(value_));
    return value_.get<std::string>();
}

std::string Field::unknown(std::initializer_list<const char*> known) const {
    require_object();
    if (value_.size() <= known.size() &&
        static_cast<std::size_t>(std::count_if(known.begin(), known.end(), [&](const char* key) {
            return value_.contains(key);
        })) == value_.size())
        return {};
    Json kept = Json::object();
    for (auto it = value_.begin(); it != value_.end(); ++it)
        if (!is_known(it.key(), known)) kept[it.key()] = it.value();
    return kept.dump();
}

void check_header(const Field& root, const char* format, int newest) {
    const Field found = root.at("format");
    if (found.text() != format)
        found.fail("expected \"" + std::string(format) + "\", found " + short_text(found.text()));
    const Field version = root.at("version");
    const std::int64_t number = version.integer(1, std::numeric_limits<std::int64_t>::max());
    if (number > newest)
        version.fail("version " + std::to_string(number) + " is newer than this program reads (" +
                     std::to_string(newest) + "): update SwapAdvisor");
}

void keep_unknown(const Field& field, std::initializer_list<const char*> known, ElementExtras& extras) {
    std::string kept = field.unknown(known);
    if (!kept.empty()) extras.emplace_back(field.path(), std::move(kept));
}

std::string splice(const std::string& extra, std::initializer_list<const char*> known) {
    if (extra.empty()) return {};
    const Json object = Json::parse(extra, nullptr, false);
    if (!object.is_object()) return {};
    std::string out;
    for (auto it = object.begin(); it != object.end(); ++it)
        if (!is_known(it.key(), known))
            out += "," + json_text(it.key()) + ":" +
                   it.value().dump(-1, ' ', false, Json::error_handler_t::replace);
    return out;
}

ExtraLookup::ExtraLookup(const ElementExtras& extras) {
    sorted_.assign(extras.begin(), extras.end());
    std::sort(sorted_.begin(), sorted_.end());
}

std::string ExtraLookup::operator()(const std::string& path, std::initializer_list<const char*> known) const {
    auto it = std::lower_bound(sorted_.begin(), sorted_.end(),
                               std::pair<std::string_view, std::string_view>(path, ""));
    if (it == sorted_.end() || it->first != path) return {};
    return splice(std::string(it->second), known);
}

std::string ExtraLookup::operator()(const char* list, std::size_t index,
                                    std::initializer_list<const char*> known) const {
    if (sorted_.empty()) return {};
    return (*this)(std::string(list) + "[" + std::to_string(index) + "]", known);
}

}  // namespace swapadvisor::planner
