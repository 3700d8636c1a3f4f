// Loading: linking of several texts, initialisers, what is unsupported and how that is said.
#include <catch2/catch.hpp>

#include "tests/unit/softgpu/ptx_apply.h"

using namespace softgpu::ptx;
using namespace softgpu::ptx::test;

namespace {

const std::string kHead = ".version 8.7\n.target sm_75\n.address_size 64\n";

std::string error_of(const std::vector<std::string>& texts, bool* unsupported = nullptr) {
    TestMemory memory;
    try {
        load(texts, memory);
    } catch (const PtxError& e) {
        if (unsupported != nullptr) *unsupported = e.unsupported;
        return e.what();
    }
    return "";
}
std::string body_error(const std::string& body, bool* unsupported = nullptr) {
    return error_of({kHead + ".entry k()\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n.reg .pred %p<2>;\n" +
                     body + "\nret;\n}\n"},
                    unsupported);
}

}  // namespace

TEST_CASE("separately compiled texts are linked", "[ptx]") {
    TestMemory memory;
    std::string a =
        kHead +
        ".extern .func (.param .b32 r) twice(.param .b32 x);\n.extern .global .align 4 .u32 "
        "shared_value;\n.global .u32 hidden = 1;\n"
        ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, "
        "[out];\nld.global.u32 %r1, [shared_value];\n{\n.param .b32 p;\n.param .b32 q;\n"
        "st.param.b32 [p], %r1;\ncall (q), twice, (p);\nld.param.b32 %r2, [q];\n}\nld.global.u32 %r3, "
        "[hidden];\nadd.u32 %r2, %r2, %r3;\nst.global.u32 [%rd1], %r2;\nret;\n}\n";
    std::string b =
        kHead +
        ".global .u32 hidden = 100;\n.visible .global .align 4 .u32 shared_value = 21;\n.visible .func "
        "(.param .b32 r) twice(.param .b32 x)\n{\n.reg .b32 %r<4>;\nld.param.b32 %r1, [x];\n"
        "ld.global.u32 %r2, [hidden];\nadd.u32 %r1, %r1, %r1;\nadd.u32 %r1, %r1, %r2;\nst.param.b32 [r], "
        "%r1;\nret;\n}\n.visible .entry other() { ret; }\n";
    auto module = load({a, b}, memory);
    REQUIRE(module->functions().size() == 2);
    REQUIRE(module->variables().size() == 3);
    Array<u32> out(memory, 1);
    REQUIRE(run(*module, "k", memory, {1, 1, 1}, {1, 1, 1}, Params(out)).fault == Fault::none);
    REQUIRE(out[0] == 143);
    REQUIRE(error_of({a}).find("variable shared_value is not defined in any linked text") !=
            std::string::npos);
}

TEST_CASE("weak definitions give way, double ones are errors", "[ptx]") {
    std::string f =
        ".func (.param .b32 r) f()\n{\n.reg .b32 %t;\nmov.u32 %t, VALUE;\nst.param.b32 [r], %t;\nret;\n}\n";
    auto with = [&](const std::string& linkage, const std::string& value) {
        std::string s = kHead + linkage + " " + f;
        s.replace(s.find("VALUE"), 5, value);
        return s;
    };
    std::string user =
        kHead +
        ".extern .func (.param .b32 r) f();\n.visible .entry k(.param .u64 out)\n{\n.reg .b32 %r1;\n.reg "
        ".b64 %rd1;\nld.param.u64 %rd1, [out];\n{\n.param .b32 q;\ncall (q), f, ();\n"
        "ld.param.b32 %r1, [q];\n}\nst.global.u32 [%rd1], %r1;\nret;\n}\n";
    TestMemory memory;
    auto module = load({with(".weak", "1"), user, with(".visible", "2")}, memory);
    Array<u32> out(memory, 1);
    REQUIRE(run(*module, "k", memory, {1, 1, 1}, {1, 1, 1}, Params(out)).fault == Fault::none);
    REQUIRE(out[0] == 2);
    REQUIRE(error_of({with(".visible", "1"), with(".visible", "2")}).find("defined in two") !=
            std::string::npos);
}

TEST_CASE("initialisers", "[ptx]") {
    TestMemory memory;
    auto module =
        load({kHead + ".global .align 4 .b8 bytes[6] = {1, 2, 0xff, -1};\n.global .align 8 .u64 pointers[3] "
                      "= {bytes, generic(bytes)+4, 7};\n"
                      ".global .align 4 .f32 floats[3] = {0f3F800000, 2.5, -0f40000000};\n.global .f64 d = "
                      "0d3FF8000000000000;\n.global .align 4 .u32 m[2][2] = {{1, 2}, {3, 4}};\n"
                      ".global .v4 .u32 q = {5, 6, 7, 8};\n.visible .const .align 4 .s32 c = -5;\n.global "
                      ".attribute(.managed) .align 4 .u32 managed = 9;\n.global .s16 open[] = {1, 2, 3};\n"},
             memory);
    std::map<std::string, Variable*> v;
    for (Variable* x : module->variables()) v[x->name] = x;
    auto at = [&](const char* name) { return reinterpret_cast<const unsigned char*>(v.at(name)->address); };
    REQUIRE(std::string(reinterpret_cast<const char*>(at("bytes")), 6) == std::string("\1\2\xff\xff\0\0", 6));
    u64 p[3];
    std::memcpy(p, at("pointers"), 24);
    REQUIRE(p[0] == v["bytes"]->address);
    REQUIRE(p[1] == v["bytes"]->address + 4);
    REQUIRE(p[2] == 7);
    float f[3];
    std::memcpy(f, at("floats"), 12);
    REQUIRE(f[0] == 1.0F);
    REQUIRE(f[1] == 2.5F);
    REQUIRE(f[2] == -2.0F);
    u32 m[4];
    std::memcpy(m, at("m"), 16);
    REQUIRE(m[3] == 4);
    REQUIRE(v["q"]->align == 16);
    REQUIRE(v["c"]->constant);
    REQUIRE(v["managed"]->managed);
    REQUIRE(v["open"]->size == 6);
}

TEST_CASE("function information", "[ptx]") {
    TestMemory memory;
    auto module = load(
        {kHead + ".visible .entry k(.param .u8 a, .param .u64 b, .param .align 16 .b8 c[20], .param .f32 "
                 "d)\n.maxntid 128, 2, 1\n{\n.local .align 8 .b8 l[24];\n.shared .align 4 .b8 s[100];\n"
                 ".reg .b32 %r<3>;\nmov.u32 %r1, s;\nld.shared.u32 %r2, [%r1];\nret;\n}\n"},
        memory);
    const FunctionInfo& i = module->functions().at("k")->info();
    REQUIRE(i.params.size() == 4);
    REQUIRE(i.params[1].offset == 8);
    REQUIRE(i.params[2].offset == 16);
    REQUIRE(i.params[2].align == 16);
    REQUIRE(i.params[3].offset == 36);
    REQUIRE(i.param_bytes == 40);
    REQUIRE(i.max_threads == 256);
    REQUIRE(i.static_shared_bytes == 100);
    REQUIRE(i.local_bytes >= 24);
    REQUIRE(i.ptx_version == 87);
    REQUIRE(i.target == 75);
}

TEST_CASE("what is not supported fails the load, by name and line", "[ptx]") {
    bool unsupported = false;
    REQUIRE(body_error("tex.2d.v4.f32.f32 {%r1, %r1, %r1, %r1}, [%rd1, {%r1, %r1}];", &unsupported) ==
            "line 9: unsupported: instruction tex.2d.v4.f32.f32");
    REQUIRE(unsupported);
    REQUIRE(body_error("frobnicate.u32 %r1, %r2;", &unsupported) ==
            "line 9: unsupported: instruction frobnicate.u32");
    REQUIRE(unsupported);
    REQUIRE(body_error("add.frob.u32 %r1, %r2, %r3;").find("unsupported: instruction add.frob.u32") !=
            std::string::npos);
    REQUIRE(body_error("mov.u32 %r1, %frob;").find("special register %frob") != std::string::npos);
    REQUIRE(error_of({kHead + ".frob x;\n"}).find("directive .frob") != std::string::npos);
    // Also in functions that no kernel calls.
    REQUIRE(error_of({kHead + ".func unused()\n{\nfrobnicate;\nret;\n}\n"})
                .find("line 6: unsupported: instruction frobnicate") != std::string::npos);
}

TEST_CASE("wrong text is an error with its line", "[ptx]") {
    bool unsupported = true;
    REQUIRE(body_error("add.u32 %r1, %r2;", &unsupported).find("line 9: add.u32") == 0);
    REQUIRE(!unsupported);
    REQUIRE(body_error("add.u32 %r1, %r2, %rd1;").find("wrong width") != std::string::npos);
    REQUIRE(body_error("bra NOWHERE;").find("unknown label NOWHERE") != std::string::npos);
    REQUIRE(body_error("mov.u32 %r1, nothing;").find("unknown name nothing") != std::string::npos);
    REQUIRE(body_error("ld.global.u32 %r1, %rd1;").find("brackets") != std::string::npos);
    REQUIRE(error_of({kHead + ".entry k()\n{\nret;\n"}).find("unfinished") != std::string::npos);
    REQUIRE(error_of({kHead + ".global .u32 x[2] = {1, 2, 3};\n"}).find("too many initialisers") !=
            std::string::npos);
    REQUIRE(!error_of({"\x7f"
                       "ELF"})
                 .empty());
    REQUIRE(error_of({}).find("no PTX text") != std::string::npos);
}

TEST_CASE("a vector of one element in braces is its element", "[ptx]") {
    TestMemory memory;
    auto module = load(
        {kHead +
         ".visible .entry k(.param .u64 io)\n{\n.reg .b32 %r<2>;\n.reg .b64 %rd<2>;\n.reg .pred %p<2>;\n"
         "ld.param.u64 %rd1, [io];\nsetp.eq.u64 %p1, %rd1, %rd1;\n@%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];\n"
         "@%p1 st.global.b32 [ %rd1 + 4 ], { %r1 };\n@!%p1 st.global.b32 [ %rd1 + 0 ], { %r1 };\nret;\n}\n"},
        memory);
    Array<u32> io(memory, 2);
    io[0] = 77;
    REQUIRE(run(*module, "k", memory, {1, 1, 1}, {1, 1, 1}, Params(io)).fault == Fault::none);
    REQUIRE(io[0] == 77);
    REQUIRE(io[1] == 77);
}

TEST_CASE("comments, scopes and odd layout parse", "[ptx]") {
    TestMemory memory;
    auto module = load(
        {"//c\n.version 8.0 .target sm_80, debug .address_size 64 /* multi\nline */\n.file 1 "
         "\"a.cu\"\n.section .debug_str { .b8 1,2\n }\n"
         ".visible .entry k(.param .u64 .ptr .global .align 4 out) .pragma \"nounroll\"; { .reg.b64 %rd<3>; "
         ".reg .b32 %r, %s; .reg .pred p;\n.loc 1 2 3\nld.param.u64 %rd1,[out]; mov.u32 %r,5;\n"
         "{ .reg .b32 %r; mov.u32 %r, 7; L: add.u32 %r, %r, 1; setp.lt.u32 p, %r, 10; @p bra L; mov.u32 %s, "
         "%r; }\n{ .reg .b32 %r; mov.u32 %r, 1; L: add.u32 %r, %r, 1; setp.lt.u32 p, %r, 3; @p bra L; }\n"
         "add.u32 %r, %r, %s; st.global.u32 [%rd1], %r; }"},
        memory);
    Array<u32> out(memory, 1);
    REQUIRE(run(*module, "k", memory, {1, 1, 1}, {1, 1, 1}, Params(out)).fault == Fault::none);
    REQUIRE(out[0] == 15);
}
