// PTX function bodies: scopes, registers, labels, instructions.
#include "tests/softgpu/ptx/parser_core.h"

namespace softgpu::ptx {

void Parser::body() {
    scopes_.clear();
    scopes_.emplace_back();
    scope_serial_ = 0;
    for (std::size_t i = 0; i < function_->variables.size(); ++i) {
        scopes_.back().variables[function_->variables[i].name] = static_cast<int>(i);
    }
    expect('{');
    prescan_labels(next_);
    while (!scopes_.empty()) {
        if (accept('}')) {
            scopes_.pop_back();
        } else if (accept('{')) {
            scopes_.emplace_back();
            ++scope_serial_;
            prescan_labels(next_);
        } else {
            statement();
        }
    }
}

/// Labels may be used before they are met, and each `{ }` has its own: collect those of the scope starting
/// here.
void Parser::prescan_labels(std::size_t from) {
    int depth = 0;
    for (std::size_t i = from; i + 1 < tokens_.size(); ++i) {
        const Token& t = tokens_[i];
        if (t.kind == Token::punct && t.symbol == '{') {
            // A vector operand also has braces, never labels: "{%r1, %r2}".
            ++depth;
        } else if (t.kind == Token::punct && t.symbol == '}') {
            if (--depth < 0) return;
        } else if (depth == 0 && t.kind == Token::word && tokens_[i + 1].kind == Token::punct &&
                   tokens_[i + 1].symbol == ':') {
            std::string name(t.text);
            std::string unique = scopes_.size() == 1 ? name : name + "#" + std::to_string(scope_serial_);
            scopes_.back().labels[name] = unique;
        }
    }
    fail(tokens_[from].line, "unfinished block");
}

void Parser::statement() {
    const Token& t = peek();
    if (t.kind == Token::end) fail(t.line, "unfinished function " + function_->name);
    if (accept(';')) return;
    if (t.kind == Token::word && peek(1).kind == Token::punct && peek(1).symbol == ':')
        return label_statement();
    if (t.kind == Token::word && t.text[0] == '.') return body_directive(t.text);
    instruction();
}

void Parser::body_directive(std::string_view w) {
    if (w == ".reg") {
        registers();
    } else if (w == ".local" || w == ".shared" || w == ".param" || w == ".global" || w == ".const") {
        std::vector<VariableAst> found;
        variables({}, found);
        for (VariableAst& v : found) {
            if (v.space == Space::global || v.space == Space::constant) {
                // A function-level global is a module variable with a private name.
                std::string name = function_->name + "$" + v.name;
                scopes_.back().variables.erase(v.name);
                v.name = name;
                module_->variables.push_back(v);
                fail_unsupported(v.line, "global variable inside a function");
            }
            scopes_.back().variables[v.name] = static_cast<int>(function_->variables.size());
            function_->variables.push_back(v);
        }
    } else if (w == ".loc") {
        loc();
    } else if (w == ".pragma") {
        skip_statement();
    } else {
        fail_unsupported(peek().line, "directive " + std::string(w));
    }
}

void Parser::registers() {
    take();
    Type type;
    int vector = 1;
    for (;;) {
        std::string_view w = peek().text;
        if (w == ".v2" || w == ".v4") {
            vector = w == ".v2" ? 2 : 4;
            take();
        } else if (peek().kind == Token::word && w[0] == '.') {
            if (!parse_type(w, type)) fail_unsupported(peek().line, "register type " + std::string(w));
            take();
        } else {
            break;
        }
    }
    if (vector != 1) fail_unsupported(peek().line, "vector register");
    do {
        std::string name = word();
        int first = static_cast<int>(function_->registers.size());
        if (accept('<')) {
            int count = static_cast<int>(integer());
            expect('>');
            scopes_.back().families[name] = {first, count};
            for (int i = 0; i < count; ++i) function_->registers.push_back({name + std::to_string(i), type});
        } else {
            scopes_.back().registers[name] = first;
            function_->registers.push_back({name, type});
        }
    } while (accept(','));
    expect(';');
}

void Parser::label_statement() {
    int line = peek().line;
    std::string name = word();
    expect(':');
    std::string_view w = peek().text;
    if (w == ".branchtargets") {
        take();
        std::vector<std::string>& targets = function_->branch_targets[find_label(name)];
        do targets.push_back(find_label(word()));
        while (accept(','));
        expect(';');
    } else if (w == ".callprototype") {
        take();
        function_->prototypes[name] = prototype();
    } else if (w == ".calltargets") {
        skip_statement();
    } else {
        std::string unique = find_label(name);
        if (!function_->labels.emplace(unique, static_cast<int>(function_->body.size())).second) {
            fail(line, "label " + name + " defined twice");
        }
    }
}

PrototypeAst Parser::prototype() {
    PrototypeAst p;
    if (accept('(')) param_list(p.results);
    take();  // "_"
    if (accept('(')) param_list(p.params);
    if (peek().text == ".noreturn") take();
    while (!accept(';')) take();
    return p;
}

int Parser::find_register(const std::string& name) const {
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    std::string prefix = name.substr(0, digits);
    for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s) {
        if (auto it = s->registers.find(name); it != s->registers.end()) return it->second;
        if (digits == name.size() || name.size() - digits > 9) continue;
        if (auto it = s->families.find(prefix); it != s->families.end()) {
            int index = std::atoi(name.c_str() + digits);
            if (index < it->second.second) return it->second.first + index;
        }
    }
    return -1;
}

int Parser::find_variable(const std::string& name) const {
    for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s) {
        if (auto it = s->variables.find(name); it != s->variables.end()) return it->second;
    }
    return -1;
}

std::string Parser::find_label(const std::string& name) const {
    for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s) {
        if (auto it = s->labels.find(name); it != s->labels.end()) return it->second;
    }
    return name;
}

void Parser::instruction() {
    InstAst inst;
    inst.line = peek().line;
    if (accept('@')) {
        inst.guard_negated = accept('!');
        std::string p = word();
        inst.guard = find_register(p);
        if (inst.guard < 0) fail(inst.line, "unknown predicate " + p);
    }
    if (peek().kind != Token::word)
        fail(peek().line, "expected an instruction, found '" + std::string(peek().text) + "'");
    std::string_view text = take().text;
    std::size_t dot = text.find('.');
    inst.op = text.substr(0, dot);
    while (dot != std::string_view::npos) {
        std::size_t end = text.find('.', dot + 1);
        std::string mod(text.substr(dot + 1, end == std::string_view::npos ? end : end - dot - 1));
        if (mod.empty()) fail(inst.line, "bad instruction '" + std::string(text) + "'");
        inst.mods.push_back(mod);
        dot = end;
    }
    if (!accept(';')) {
        do inst.operands.push_back(operand());
        while (accept(','));
        expect(';');
    }
    function_->body.push_back(std::move(inst));
}

Operand Parser::operand() {
    Operand o = primary();
    if (peek().kind == Token::punct && peek().symbol == '|') {
        take();
        Operand second = primary();
        o.reg2 = second.kind == Operand::sink ? -2 : second.reg_id;
    }
    return o;
}

Operand Parser::primary() {
    int line = peek().line;
    Operand o;
    if (accept('!')) {
        o = primary();
        o.negated = true;
        return o;
    }
    if (accept('{')) {
        o.kind = Operand::vector;
        do o.list.push_back(primary());
        while (accept(','));
        expect('}');
        return o;
    }
    if (accept('(')) {
        o.kind = Operand::vector;
        if (accept(')')) return o;
        do o.list.push_back(primary());
        while (accept(','));
        expect(')');
        return o;
    }
    if (accept('[')) return address();
    bool negative = accept('-');
    const Token& t = take();
    switch (t.kind) {
        case Token::integer:
            o.kind = Operand::integer;
            o.value = static_cast<std::int64_t>(negative ? 0 - t.value : t.value);
            return o;
        case Token::float32:
            o.kind = Operand::float32;
            o.value = static_cast<std::int64_t>(negative ? t.value ^ 0x80000000U : t.value);
            return o;
        case Token::float64:
            o.kind = Operand::float64;
            o.value = static_cast<std::int64_t>(negative ? t.value ^ (std::uint64_t(1) << 63) : t.value);
            return o;
        case Token::word:
            return named(std::string(t.text));
        default:
            fail(line, "bad operand '" + std::string(t.text) + "'");
    }
}

Operand Parser::named(const std::string& name) {
    Operand o;
    if (name == "_") {
        o.kind = Operand::sink;
        return o;
    }
    if (int reg = find_register(name); reg >= 0) {
        o.kind = Operand::reg;
        o.reg_id = reg;
        return o;
    }
    if (name[0] == '%') {
        o.kind = Operand::special;
        o.name = name.substr(1);
        return o;
    }
    if (name == "WARP_SZ") {
        o.kind = Operand::integer;
        o.value = 32;
        return o;
    }
    o.symbol_id = find_variable(name);
    std::string label = find_label(name);
    bool is_label = false;
    for (const Scope& s : scopes_) is_label = is_label || s.labels.contains(name);
    o.kind = o.symbol_id < 0 && is_label ? Operand::label : Operand::symbol;
    o.name = o.kind == Operand::label ? label : name;
    for (;;) {  // symbol+offset as a mov source
        if (accept('+'))
            o.value += static_cast<std::int64_t>(integer());
        else if (peek().kind == Token::punct && peek().symbol == '-')
            take(), o.value -= static_cast<std::int64_t>(integer());
        else
            break;
    }
    return o;
}

/// After '[': "%rd1+4]", "sym+8]", "%rd1]", "16]", "sym+%r1]" is not PTX. Tensor forms have commas: kept as a
/// list.
Operand Parser::address() {
    Operand o;
    o.kind = Operand::address;
    if (peek().kind == Token::integer || (peek().kind == Token::punct && peek().symbol == '-')) {
        o.value = static_cast<std::int64_t>(integer());
    } else {
        std::string name = word();
        o.reg_id = find_register(name);
        if (o.reg_id < 0) {
            o.name = name;
            o.symbol_id = find_variable(name);
        }
    }
    for (;;) {
        if (accept('+'))
            o.value += static_cast<std::int64_t>(integer());
        else if (peek().kind == Token::punct && peek().symbol == '-') {
            take();
            o.value -= static_cast<std::int64_t>(integer());
        } else
            break;
    }
    while (accept(',')) o.list.push_back(primary());
    expect(']');
    return o;
}

}  // namespace softgpu::ptx
