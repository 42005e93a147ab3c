#!/usr/bin/env python3
"""Tests of tools/tidy: every check must fail on a planted sample and pass on its neighbour."""

import os
import sys
import tempfile
import textwrap
import unittest

TOOLS = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, TOOLS)

from tidy_checks import catches, includes, layers, names, prose, rules  # noqa: E402
from tidy_checks.scan import scan  # noqa: E402
from tidy_checks.source import SourceFile  # noqa: E402


def source(text, path="src/base/a.cc"):
    return SourceFile(path, textwrap.dedent(text))


def functions(text):
    return [(f.name, f.lines, f.parameters) for f in scan(source(text))[0]]


def checks(text, path="src/base/a.cc"):
    return [f.check for f in rules.check(source(text, path))]


class Blanking(unittest.TestCase):
    def code(self, text):
        return SourceFile("a.cc", text).code

    def test_comments_and_literals_hold_no_braces(self):
        for text in ('// {', '/* { \n } */', '"{"', r'"\"{"', "'{'", r"'\''", 'R"x({)" )x"', 'u8"{"',
                     "// a \\\n {"):
            self.assertNotRegex(self.code(text), "[{}]", text)

    def test_digit_separators_are_not_quotes(self):
        self.assertEqual(self.code("x = 1'000'000; {}"), "x = 1'000'000; {}")

    def test_quotes_inside_comments_do_not_open_strings(self):
        self.assertEqual(self.code("// it's\n{}").split("\n")[1], "{}")

    def test_directives_go_with_their_continuations(self):
        self.assertNotIn("{", self.code("#define A(x) { \\\n  { x\nint a;"))

    def test_includes_are_read_from_the_text(self):
        found = SourceFile("a.cc", '#include "src/x.h"\n# include <y.h>\n//#include "z.h"\n').includes
        self.assertEqual([(i.line, i.name, i.quoted) for i in found],
                         [(1, "src/x.h", True), (2, "y.h", False)])


class Functions(unittest.TestCase):
    def test_plain_and_namespaced(self):
        self.assertEqual(functions("namespace a::b {\nint f(int x) {\n  return x;\n}\n}\n"),
                         [("f", 3, 1)])

    def test_blocks_and_lambdas_belong_to_the_function(self):
        self.assertEqual(functions("""
            void f() {
              for (int i = 0; i < 3; ++i) {
                auto g = [&](int a) { return a; };
              }
              struct Local { void h() {} };
            }
            """), [("f", 6, 0)])

    def test_class_bodies_are_not_functions_but_methods_are(self):
        self.assertEqual(functions("""
            class alignas(64) A final : public B<int, decltype(x)> {
             public:
              A() {}
              void g(int a, int b) const noexcept(false) { }
              int x{3};
            };
            struct C make() { return {}; }
            enum class E : int { kA, kB };
            union { int a; float b; } u;
            """), [("A", 1, 0), ("g", 1, 2), ("make", 1, 0)])

    def test_constructors_with_initializer_lists(self):
        self.assertEqual(functions("""
            A::A(int a, std::pair<int, int> b)
                : Base<int>{a},
                  b_{b}, c_(1) {
              x();
            }
            A::A() : a_{1} {}
            A::A(int) : a_(1), f_([] { return 1; }) { }
            """), [("A::A", 5, 2), ("A::A", 1, 0), ("A::A", 1, 1)])

    def test_braces_in_default_arguments_and_initializers(self):
        self.assertEqual(functions("""
            void f(Options o = {}, int b = g(1, 2)) { }
            constexpr int kTable[] = {1, 2};
            const std::map<int, int> kMap{{1, 2}, {3, 4}};
            std::function<void(int, int)> kNone{};
            int h() { }
            """), [("f", 1, 2), ("h", 1, 0)])

    def test_operators_and_conversions(self):
        self.assertEqual([f[2] for f in functions("""
            bool operator==(const A& a, const A& b) { return a < b; }
            A& operator=(A&& a) { return *this; }
            int A::operator()(int a, int b, int c) { }
            A::operator bool() const { }
            std::ostream& operator<<(std::ostream& o, const A& a) { }
            """)], [2, 1, 3, 0, 2])

    def test_templates_and_requirements(self):
        self.assertEqual(functions("""
            template <class T, class = std::enable_if_t<(sizeof(T) > 4)>>
            auto f(T a, std::array<T, 3> b) -> decltype(a + b) { }
            template <class T>
              requires requires(T t) { t.x(); }
            void g(T) { }
            template <class T>
            concept C = requires(T t) { t.y(); };
            """), [("f", 2, 2), ("g", 3, 1)])

    def test_lambda_at_namespace_scope_is_a_function(self):
        self.assertEqual(functions("constexpr auto kF = [](int a) {\n  return a;\n};\n"),
                         [("kF", 3, 0)])

    def test_tests_and_instantiations(self):
        self.assertEqual(functions("""
            TEST(A, B) { }
            INSTANTIATE_TEST_SUITE_P(X, Y, testing::Values(1), [](const auto& i) { return i; });
            TEST_P(C, D) { }
            """), [("TEST", 1, 2), ("TEST_P", 1, 2)])

    def test_every_branch_of_a_conditional_is_read(self):
        self.assertEqual(functions("""
            #if A
            void f() {
            #else
            void f(int a) {
            #endif
            }
            void g() {}
            """), [("f", 3, 1), ("g", 1, 0)])

    def test_extern_c(self):
        found = scan(source('extern "C" {\nint f(int a) { }\n}\nextern "C" int g() { }\nint h() {}'))[0]
        self.assertEqual([f.extern_c for f in found], [True, True, False])

    def test_unbalanced_braces_are_reported(self):
        self.assertEqual(checks("void f() {\n"), ["braces"])
        self.assertEqual(checks("}\n"), ["braces"])


class Sizes(unittest.TestCase):
    @staticmethod
    def function_of(lines):
        return "void f() {\n" + "  x();\n" * (lines - 2) + "}\n"

    def test_function_lines(self):
        self.assertEqual(checks(self.function_of(70)), [])
        self.assertEqual(checks(self.function_of(71)), ["function-lines"])

    def test_kernels_have_their_own_limit(self):
        path = "src/engines/kernel/a.cu"
        self.assertEqual(checks(self.function_of(200), path), [])
        self.assertEqual(checks(self.function_of(201), path), ["function-lines"])

    def test_file_lines(self):
        self.assertEqual(checks("\n" * 500), [])
        self.assertEqual(checks("\n" * 501), ["file-lines"])

    def test_columns(self):
        self.assertEqual(checks("// " + "x" * 97), [])
        self.assertEqual(checks("// " + "x" * 98), ["columns"])

    def test_parameters_of_definitions_and_declarations(self):
        for tail in ("{ }", ";", " = 0;"):
            self.assertEqual(checks("struct A { void f(int, int, int, int, int)%s };" % tail), [])
            self.assertEqual(checks("struct A { void f(int, int, int, int, int, int)%s };" % tail),
                             ["parameters"])

    def test_commas_inside_a_parameter_do_not_count(self):
        self.assertEqual(checks("void f(std::map<int, int> a, void (*b)(int, int, int, int));"), [])

    def test_the_c_api_may_have_more(self):
        many = "(int, int, int, int, int, int)"
        self.assertEqual(checks(f'extern "C" int f{many};'), [])
        self.assertEqual(checks(f"int tuttiAllReduce{many} {{ }}"), [])
        self.assertEqual(checks(f"// Owns: nothing\nint f{many};", "include/tutti/a.h"), [])


class Words(unittest.TestCase):
    def test_goto(self):
        self.assertEqual(checks("void f() { goto end; }"), ["goto"])
        self.assertEqual(checks('void f() { x("goto"); } // goto'), [])

    def test_numbers_do_not_follow_the_locale(self):
        for code in ("double x = std::strtod(a, &b);", "x = std::stod(text);",
                     'std::snprintf(a, sizeof a, "%5.2f ms", x);'):
            self.assertEqual(checks(f"void f() {{ {code} }}", "src/a.cc"), ["locale"], code)
            self.assertEqual(checks(f"void f() {{ {code} }}", "tools/a.cc"), [], code)
        for code in ('std::snprintf(a, sizeof a, "%llx", x);', "x = std::stoi(text);"):
            self.assertEqual(checks(f"void f() {{ {code} }}", "src/a.cc"), [], code)

    def test_todo_needs_a_reason(self):
        self.assertEqual(checks("// TODO: later"), ["todo"])
        self.assertEqual(checks("// FIXME"), ["todo"])
        self.assertEqual(checks("// TODO(needs a 6.0 kernel): use it"), [])

    def test_public_headers_state_their_contract(self):
        self.assertEqual(checks("int f();", "include/tutti/a.h"), ["contract"])
        self.assertEqual(checks("// Threads: any\nint f();", "include/tutti/a.h"), [])


class Catches(unittest.TestCase):
    def lines(self, text, path="src/exec/a.cc"):
        return [finding.line for finding in catches.check(source(text, path))]

    def test_below_the_c_border_nothing_is_caught(self):
        for text in ("try { f(); } catch (const std::bad_alloc&) {}", "attempt([] { f(); });",
                     "return caught_status([] { return f(); });", "new (std::nothrow) int[n]"):
            self.assertEqual(self.lines("int x;\n" + text), [2], text)
            self.assertEqual(self.lines("int x;\n" + text, "transports/tcp/a.cc"), [2], text)

    def test_the_border_tests_and_the_places_of_the_table_catch(self):
        text = "try { f(); } catch (const std::bad_alloc&) {}"
        for path in ("src/api/a.cc", "src/exec/a_test.cc", "tests/a.cc", "src/operation/task_scheduler.cc"):
            self.assertEqual(self.lines(text, path), [], path)

    def test_words_of_comments_and_names_catch_nothing(self):
        self.assertEqual(self.lines("// catch (it)\nint attempts(int);"), [])

    def test_a_place_that_catches_nothing_leaves_the_table(self):
        found = list(catches.check_all([source("int x;", "src/operation/task_scheduler.cc")]))
        self.assertEqual([finding.path for finding in found], ["src/operation/task_scheduler.cc"])


class Prose(unittest.TestCase):
    def lines(self, text):
        return [finding.line for finding in prose.check(SourceFile("a.cc", text))]

    def test_a_comment_that_begins_without_a_subject(self):
        for text in ("// Who died may come back.", "/// Whom it waits for.", "/* What is left. */",
                     "int a;  // Whoever asks", "/**\n * What it owns\n */", "//What is left."):
            self.assertEqual(len(self.lines(text)), 1, text)

    def test_a_sentence_behind_another(self):
        self.assertEqual(self.lines("// A rank ends.\n// Who waits for it\n// is told. What follows ends."),
                         [2, 3])
        self.assertEqual(self.lines("// A title\n//\n// Who waits\n"), [3])
        self.assertEqual(self.lines("/* It ends. Who waits is told: whoever. */"), [1])

    def test_what_is_in_a_sentence(self):
        for text in ("// A rank\n// Who", "// It says who waits. The rank that waits ends.",
                     "// Whose turn it is", "// Whatever", 'f("Who is there");', "int What;"):
            self.assertEqual(self.lines(text), [], text)

    def test_comments_of_two_lines_of_code_are_two(self):
        self.assertEqual(self.lines("int a;  // the first\nint b;  // What is next"), [2])


class Names(unittest.TestCase):
    def findings(self, **files):
        sources = [SourceFile(path.replace("__", "/") + ".cc", text) for path, text in files.items()]
        return [(finding.key, finding.size) for finding in names.check(sources)]

    def test_a_name_that_was_replaced(self):
        self.assertEqual(self.findings(src__a__a="class Lounge {};"), [("src/a/a.cc:Lounge", 1)])
        self.assertEqual(self.findings(src__a__a="class Lounger {}; Lounge* lounge;"), [])
        self.assertEqual(self.findings(tests__a__a="class Lounge {};"), [])

    def test_a_name_with_two_meanings(self):
        for text in ("struct Exchange {};", "class Exchange : public A<int> {};", "union Exchange { };",
                     "enum class Exchange : uint8_t { kA };", "class [[nodiscard]] Exchange final {\n};",
                     "namespace { struct alignas(64) Exchange {}; }"):
            self.assertEqual(self.findings(src__a__a=text, transports__b__b="struct Exchange {};"),
                             [("src:Exchange", 2)], text)

    def test_what_is_no_definition(self):
        for text in ("struct Exchange;", "Exchange a{1};", "struct Exchange::Part {};", "// struct Exchange {",
                     "friend class Exchange;", "struct Exchange* f() { }", "struct exchange {};"):
            self.assertEqual(self.findings(src__a__a=text, src__b="struct Exchange {};"), [], text)

    def test_tests_and_other_folders_may(self):
        text = "struct Exchange {};"
        self.assertEqual(self.findings(src__a=text, src__a_test=text, perf__a=text, tests__a=text), [])


class Mutable(unittest.TestCase):
    def test_variables_that_change(self):
        for text in ("int g = 1;", "static int g;", "namespace { std::atomic<int> g{0}; }",
                     "const char* g = 0;", "struct A { static int g; };", "thread_local int g;",
                     "std::vector<int> g = {1, 2};", "A& f() { static A a; return a; }",
                     "int g[4];", "static A* g = new A;"):
            self.assertEqual(checks(text), ["mutable"], text)

    def test_what_does_not_change(self):
        for text in ("constexpr int kA = 1;", "const std::map<int, int> kA{{1, 2}};", "int f();",
                     "const char* const kA = 0;", "inline constexpr char kA[] = {1};", "using A = int;",
                     "struct A { int a; };", "struct A;", "extern int a;", "typedef int A;",
                     "void f() { int a = 1; static const int b = 2; }", "friend class A;",
                     "template <class T> constexpr int kA = 1;", "struct A { static int f(); };",
                     "static_assert(sizeof(int) == 4);", "enum class A { kB };"):
            self.assertEqual(checks(text), [], text)

    def test_a_reason_allows_one(self):
        self.assertEqual(checks("int g;  // tidy: allow mutable (C callback)"), [])
        self.assertEqual(checks("// tidy: allow mutable (C callback)\nint g;"), [])
        self.assertEqual(checks("int g;  // tidy: allow mutable"), ["mutable"])

    def test_tests_may(self):
        self.assertEqual(checks("int g;", "src/base/a_test.cc"), [])


class Layers(unittest.TestCase):
    def findings(self, path, include):
        found = source(f"#include {include}\n", path)
        return [f.message for f in layers.check(found, layers.Resolver("/nonexistent"))]

    def test_an_arrow_that_is_not_drawn(self):
        self.assertTrue(self.findings("src/schedule/a.cc", '"src/plan/plan.h"'))
        self.assertTrue(self.findings("src/base/a.cc", '"src/trace/trace.h"'))
        self.assertTrue(self.findings("algorithms/barrier/a.cc", '"src/transport/transport.h"'))
        self.assertTrue(self.findings("src/comm/a.cc", '"transports/tcp/tcp.h"'))
        self.assertTrue(self.findings("src/comm/a.cc", '"src/transport/stream/exchange.h"'))
        self.assertTrue(self.findings("src/transport/a.cc", '"src/transport/door/gate.h"'))

    def test_arrows_that_are(self):
        for path, include in (("src/plan/a.cc", '"src/schedule/schedule.h"'),
                              ("src/plan/a.cc", '"src/base/status.h"'),
                              ("src/plan/a.cc", '"src/plan/b.h"'),
                              ("algorithms/barrier/a.cc", '"algorithms/patterns/ring.h"'),
                              ("src/registry/a.cc", '"algorithms/barrier/a.h"'),
                              ("src/api/a.cc", "<tutti/tutti.h>"),
                              ("src/transport/door/a.cc", '"src/transport/member.h"'),
                              ("src/base/a.cc", "<vector>")):
            self.assertEqual(self.findings(path, include), [], path + include)

    def test_public_only_folders_do_not_even_see_base(self):
        self.assertTrue(self.findings("src/runtime/a.cc", '"src/base/status.h"'))
        self.assertTrue(self.findings("include/tutti/a.h", '"src/base/status.h"'))
        self.assertEqual(self.findings("src/runtime/a.cc", '"tutti/runtime/mesh.h"'), [])

    def test_tests_include_anything_and_nobody_includes_them(self):
        self.assertEqual(self.findings("tests/a.cc", '"src/comm/comm.h"'), [])
        self.assertEqual(self.findings("src/base/a_test.cc", '"tests/helper.h"'), [])
        self.assertEqual(self.findings("src/base/a_test.h", '"tests/helper.h"'), [])
        self.assertEqual(self.findings("src/base/a_test.cc", '"src/base/b_test.h"'), [])
        self.assertTrue(self.findings("src/base/a.cc", '"src/base/b_test.h"'))
        self.assertTrue(self.findings("src/base/a.cc", '"tests/helper.h"'))
        self.assertTrue(self.findings("src/base/a.cc", '"perf/x.h"'))

    def test_the_library_does_not_contain_the_verifier(self):
        self.assertTrue(self.findings("src/comm/a.cc", '"src/plan/verify_plan.h"'))
        self.assertTrue(self.findings("src/schedule/a.h", '"src/schedule/verify.h"'))
        for path in ("src/schedule/verify_a.cc", "src/schedule/a_test.cc", "tools/verifier/a.cc"):
            self.assertEqual(self.findings(path, '"src/schedule/verify.h"'), [], path)

    def test_vendors(self):
        self.assertTrue(self.findings("src/exec/a.cc", "<cuda.h>"))
        self.assertTrue(self.findings("src/topology/a.cc", "<infiniband/verbs.h>"))
        self.assertEqual(self.findings("src/drivers/a.cc", "<cuda.h>"), [])

    def test_unknown_folder(self):
        self.assertTrue(self.findings("src/misc/a.cc", "<vector>"))

    def test_every_arrow_leads_to_a_folder(self):
        for targets in layers.ARROWS.values():
            self.assertLessEqual(set(targets), set(layers.ARROWS))


class Includes(unittest.TestCase):
    FILES = {"src/base/has.h": "#include <vector>\n", "src/base/deep.h": '#include "src/base/has.h"\n',
             "src/base/bare.h": ""}

    def findings(self, text, path="src/base/a.cc"):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "src/base"))
            for name, content in self.FILES.items():
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(content)
            check = includes.IncludeCheck(layers.Resolver(root),
                                          lambda name: SourceFile(name, self.FILES.get(name, "")))
            return [f.message for f in check.check(source(text, path))]

    def test_what_is_named_must_be_included(self):
        self.assertEqual(self.findings("std::vector<int> a, b;"), ["std::vector without <vector>"])
        self.assertEqual(self.findings('#include "src/base/bare.h"\nstd::vector<int> a;'),
                         ["std::vector without <vector>"])
        self.assertTrue(self.findings("auto t = std::chrono::seconds(1);"))
        self.assertTrue(self.findings("#include <vector>\nstd::sort(a.begin(), a.end());"))

    def test_also_through_a_file_of_the_project(self):
        for include in ("<vector>", '"src/base/has.h"', '"src/base/deep.h"'):
            self.assertEqual(self.findings(f"#include {include}\nstd::vector<int> a;"), [], include)

    def test_what_asks_for_no_header(self):
        self.assertEqual(self.findings("// std::vector\nconst char* a = \"std::vector\";"), [])
        self.assertEqual(self.findings("#include <string>\nstd::string_view a;"), [])
        self.assertEqual(self.findings("my::std::chrono_like a; other::vector b;"), [])

    def test_every_precompiled_header_is_known(self):
        with open(os.path.join(TOOLS, "..", "cmake", "TuttiPrecompiled.cmake"), encoding="utf-8") as file:
            listed = file.read().split("set(TUTTI_COMMON_HEADERS")[1].split(")")[0]
        named = set(listed.replace("<", " ").replace(">", " ").split())
        self.assertEqual(named - includes.HEADERS, set())


if __name__ == "__main__":
    unittest.main()
