// PTX module-level grammar: directives, variables with initialisers, functions and their bodies.
#include <bit>
#include <cstring>

#include "tests/softgpu/ptx/ast.h"
#include "tests/softgpu/ptx/parser_core.h"

namespace softgpu::ptx {

void fail(int line, const std::string& text) {
    throw PtxError("line " + std::to_string(line) + ": " + text);
}
void fail_unsupported(int line, const std::string& text) {
    throw PtxError("line " + std::to_string(line) + ": unsupported: " + text, true);
}

bool parse_type(std::string_view text, Type& type) {
    if (!text.empty() && text[0] == '.') text.remove_prefix(1);
    struct Named {
        std::string_view name;
        Type type;
    };
    static const Named names[] = {
        {"b8", {'b', 8}},         {"b16", {'b', 16}},      {"b32", {'b', 32}},       {"b64", {'b', 64}},
        {"b128", {'b', 128}},     {"u8", {'u', 8}},        {"u16", {'u', 16}},       {"u32", {'u', 32}},
        {"u64", {'u', 64}},       {"s8", {'s', 8}},        {"s16", {'s', 16}},       {"s32", {'s', 32}},
        {"s64", {'s', 64}},       {"f16", {'f', 16}},      {"f32", {'f', 32}},       {"f64", {'f', 64}},
        {"f16x2", {'f', 32, 2}},  {"bf16", {'h', 16}},     {"bf16x2", {'h', 32, 2}}, {"pred", {'p', 1}},
        {"u16x2", {'u', 32, 2}},  {"s16x2", {'s', 32, 2}}, {"tf32", {'t', 32}},      {"e4m3x2", {'e', 16, 2}},
        {"e5m2x2", {'E', 16, 2}}, {"f32x2", {'f', 64, 2}},
    };
    for (const Named& n : names) {
        if (n.name == text) {
            type = n.type;
            return true;
        }
    }
    return false;
}

std::string InstAst::text() const {
    std::string s = op;
    for (const std::string& m : mods) s += "." + m;
    return s;
}
bool InstAst::has(std::string_view mod) const {
    for (const std::string& m : mods) {
        if (m == mod) return true;
    }
    return false;
}

std::unique_ptr<ModuleAst> Parser::run() {
    module_ = std::make_unique<ModuleAst>();
    while (peek().kind != Token::end) module_item();
    return std::move(module_);
}

void Parser::module_item() {
    const Token& t = peek();
    if (t.kind == Token::punct && t.symbol == ';') {
        take();
        return;
    }
    if (t.kind != Token::word) fail(t.line, "expected a directive, found '" + std::string(t.text) + "'");
    std::string_view w = t.text;
    if (w == ".version") {
        take();
        version();
    } else if (w == ".target") {
        take();
        target();
    } else if (w == ".address_size") {
        take();
        if (take().value != 64) fail(t.line, ".address_size must be 64");
    } else if (w == ".file") {
        take();
        take();
        if (peek().kind == Token::string && module_->file_name.empty()) module_->file_name = peek().text;
        take();
        while (accept(',')) take();
    } else if (w == ".section") {
        section();
    } else if (w == ".pragma") {
        skip_statement();
    } else if (w == ".alias") {
        take();
        std::string from = word();
        expect(',');
        module_->aliases[from] = word();
        expect(';');
    } else if (w == ".loc") {
        loc();
    } else {
        declaration();
    }
}

void Parser::version() {
    // "9.0" may be lexed as a float or as integer plus word; the text is what counts.
    const Token& t = take();
    std::string text(t.text);
    auto dot = text.find('.');
    int major = std::atoi(text.c_str());
    int minor = dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1);
    module_->version = major * 10 + minor;
}

void Parser::target() {
    do {
        const Token& t = take();
        std::string_view name = t.text;
        if (name.starts_with("sm_") || name.starts_with("compute_")) {
            module_->target = std::atoi(std::string(name.substr(name.find('_') + 1)).c_str());
        }
    } while (accept(','));
}

void Parser::section() {
    take();
    while (!(peek().kind == Token::punct && peek().symbol == '{')) {
        if (take().kind == Token::end) fail(peek().line, "unfinished .section");
    }
    int depth = 0;
    do {
        const Token& t = take();
        if (t.kind == Token::end) fail(t.line, "unfinished .section");
        if (t.kind == Token::punct && t.symbol == '{') ++depth;
        if (t.kind == Token::punct && t.symbol == '}') --depth;
    } while (depth > 0);
}

void Parser::loc() {
    int line = take().line;
    // All on one line: ".loc 1 2 3" or ".loc 1 2 3, function_name $x, inlined_at 1 2 3".
    while (peek().kind != Token::end && peek().line == line) take();
}

void Parser::declaration() {
    Linkage linkage;
    for (;;) {
        std::string_view w = peek().text;
        if (w == ".visible")
            linkage.visible = true;
        else if (w == ".extern")
            linkage.external = true;
        else if (w == ".weak")
            linkage.weak = true;
        else if (w == ".common")
            linkage.common = true;
        else
            break;
        take();
    }
    std::string_view w = peek().text;
    if (w == ".entry" || w == ".func") {
        function(linkage);
    } else if (w == ".global" || w == ".const" || w == ".shared") {
        variables(linkage, module_->variables);
    } else {
        fail_unsupported(peek().line, "directive " + std::string(w));
    }
}

Space parse_space(std::string_view w) {
    if (w == ".global" || w == "global") return Space::global;
    if (w == ".const" || w == "const") return Space::constant;
    if (w == ".shared" || w == "shared" || w == "shared::cta" || w == "shared::cluster") return Space::shared;
    if (w == ".local" || w == "local") return Space::local;
    if (w == ".param" || w == "param" || w == "param::entry" || w == "param::func") return Space::param;
    return Space::none;
}

void Parser::variables(const Linkage& linkage, std::vector<VariableAst>& out) {
    VariableAst base;
    base.line = peek().line;
    base.space = parse_space(take().text);
    base.external = linkage.external, base.weak = linkage.weak;
    base.visible = linkage.visible, base.common = linkage.common;
    do {
        out.push_back(variable(base));
        base.type = out.back().type, base.align = out.back().align, base.size = 1;
    } while (accept(','));
    expect(';');
}

VariableAst Parser::variable(const VariableAst& base) {
    VariableAst v = base;
    int vector = 1;
    bool pointee = false;
    bool typed = base.size != 0;  // a further name of a list: ".u32 a, b"
    std::uint64_t align = typed ? base.align : 0;
    v.size = 0, v.unsized = false, v.init.clear(), v.relocations.clear();
    while (peek().kind == Token::word && peek().text[0] == '.') {
        std::string_view w = take().text;
        if (w == ".align")
            pointee ? integer() : align = integer();
        else if (w == ".v2")
            vector = 2;
        else if (w == ".v4")
            vector = 4;
        else if (w == ".v8")
            vector = 8;
        else if (w == ".ptr")
            pointee = true;  // ".ptr .global .align 4" describes what it points to
        else if (w == ".attribute") {
            expect('(');
            while (!accept(')')) {
                if (take().text == ".managed") v.managed = true;
            }
        } else if (Space s = parse_space(w); s != Space::none) {
            // ".ptr .global": the space pointed to; no meaning here
        } else if (parse_type(w, v.type))
            typed = true;
        else if (w == ".texref" || w == ".samplerref" || w == ".surfref") {
            fail_unsupported(v.line, std::string(w) + " variable");
        } else
            fail_unsupported(v.line, "variable attribute " + std::string(w));
    }
    if (!typed) fail(v.line, "variable without a type");
    std::uint64_t element =
        static_cast<std::uint64_t>((v.type.bits + 7) / 8) * static_cast<std::uint64_t>(vector);
    v.name = word();
    v.align = std::max(align, element);
    if (align != 0) v.align = align;
    std::uint64_t count = 1;
    bool array = false;
    while (accept('[')) {
        array = true;
        if (accept(']')) {
            v.unsized = true;
            count = 0;
        } else {
            count *= integer();
            expect(']');
        }
    }
    v.size = element * count;
    if (accept('=')) initialiser(v, array, element / static_cast<std::uint64_t>(vector));
    return v;
}

void Parser::initialiser(VariableAst& v, bool array, std::uint64_t element) {
    std::uint64_t at = 0;
    if (peek().kind == Token::punct && peek().symbol == '{') {
        init_list(v, element, at);
    } else {
        init_value(v, element, at);
    }
    if (v.unsized && array) v.size = at, v.unsized = false;
    if (at > v.size) fail(v.line, "too many initialisers for " + v.name);
}

void Parser::init_list(VariableAst& v, std::uint64_t element, std::uint64_t& at) {
    expect('{');
    if (accept('}')) return;
    do {
        if (peek().kind == Token::punct && peek().symbol == '{')
            init_list(v, element, at);
        else
            init_value(v, element, at);
    } while (accept(','));
    expect('}');
}

void Parser::init_value(VariableAst& v, std::uint64_t element, std::uint64_t& at) {
    v.init.resize(std::max<std::size_t>(v.init.size(), at + element));
    bool negative = accept('-');
    const Token& t = take();
    std::uint64_t value = 0;
    if (t.kind == Token::integer && accept('(')) {
        // 0xFF00(symbol): one byte of an address
        VariableAst::Relocation r;
        r.offset = at, r.bytes = static_cast<int>(element);
        r.mask_shift = std::countr_zero(t.value);
        symbol_value(r);
        expect(')');
        v.relocations.push_back(r);
    } else if (t.kind == Token::integer) {
        value = negative ? 0 - t.value : t.value;
    } else if (t.kind == Token::float32 || t.kind == Token::float64) {
        value = float_bits(t, v.type);
        if (negative) value ^= std::uint64_t(1) << (v.type.bits - 1);
    } else if (t.kind == Token::word) {
        --next_;
        VariableAst::Relocation r;
        r.offset = at, r.bytes = static_cast<int>(element);
        symbol_value(r);
        v.relocations.push_back(r);
    } else {
        fail(t.line, "bad initialiser of " + v.name);
    }
    std::memcpy(v.init.data() + at, &value, std::min<std::size_t>(element, 8));
    at += element;
}

void Parser::symbol_value(VariableAst::Relocation& r) {
    std::string name = word();
    if (name == "generic" && accept('(')) {
        r.generic = true;
        name = word();
        expect(')');
    }
    r.symbol = name;
    for (;;) {
        if (accept('+'))
            r.addend += static_cast<std::int64_t>(integer());
        else if (accept('-'))
            r.addend -= static_cast<std::int64_t>(integer());
        else
            break;
    }
}

std::uint64_t Parser::float_bits(const Token& t, const Type& type) {
    if (t.kind == Token::float32) {
        if (type.bits == 64)
            return std::bit_cast<std::uint64_t>(
                double(std::bit_cast<float>(static_cast<std::uint32_t>(t.value))));
        return t.value;
    }
    if (type.bits == 32)
        return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(t.value)));
    return t.value;
}

void Parser::function(const Linkage& linkage) {
    auto f = std::make_unique<FunctionAst>();
    f->line = peek().line;
    f->entry = take().text == ".entry";
    f->external = linkage.external, f->weak = linkage.weak, f->visible = linkage.visible;
    if (peek().text == ".attribute") {
        take();
        skip_parens();
    }
    if (accept('(')) param_list(f->results);
    f->name = word();
    if (accept('(')) param_list(f->params);
    for (VariableAst& p : f->results) f->variables.push_back(p);
    for (VariableAst& p : f->params) f->variables.push_back(p);
    bool more = true;
    while (more && peek().kind == Token::word && peek().text[0] == '.') {
        std::string_view w = peek().text;
        if (w == ".maxntid" || w == ".reqntid") {
            take();
            f->max_block = triple(1);
        } else if (w == ".reqnctapercluster") {
            take();
            f->required_cluster = triple(1);
        } else if (w == ".minnctapersm" || w == ".maxnctapersm" || w == ".maxnreg" ||
                   w == ".maxclusterrank" || w == ".local_maxnreg" || w == ".abi_preserve" ||
                   w == ".abi_preserve_control") {
            take();
            integer();
        } else if (w == ".noreturn" || w == ".explicitcluster" || w == ".blocksareclusters" ||
                   w == ".unique") {
            take();
        } else if (w == ".pragma") {
            skip_statement();
        } else if (w == ".loc") {
            loc();
        } else {
            more = false;
        }
    }
    if (accept(';')) {
        module_->functions.push_back(std::move(f));
        return;
    }
    f->has_body = true;
    function_ = f.get();
    body();
    module_->functions.push_back(std::move(f));
}

std::array<std::uint32_t, 3> Parser::triple(std::uint32_t fill) {
    std::array<std::uint32_t, 3> v{fill, fill, fill};
    v[0] = static_cast<std::uint32_t>(integer());
    for (std::size_t i = 1; i < 3 && accept(','); ++i) v[i] = static_cast<std::uint32_t>(integer());
    return v;
}

void Parser::param_list(std::vector<VariableAst>& out) {
    if (accept(')')) return;
    do {
        VariableAst p;
        p.line = peek().line;
        std::string_view w = take().text;
        if (w != ".param" && w != ".reg")
            fail(p.line, "expected a parameter, found '" + std::string(w) + "'");
        p.space = Space::param;
        out.push_back(variable(p));
    } while (accept(','));
    expect(')');
}

std::unique_ptr<ModuleAst> parse(const std::string& text) {
    std::string clean = text.substr(0, text.find('\0'));
    return Parser(clean).run();
}

}  // namespace softgpu::ptx
