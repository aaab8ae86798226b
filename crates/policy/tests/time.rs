//! How long reading takes: 50 ms for 100 KB at most, whatever the text, and microseconds for a small program.
//!
//! Figures mean something with optimisation only: `cargo test --release -p saggar-policy --test time -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::sync::Mutex;
use std::time::Duration;

use policy::{Language, Options, check};
use rustix::time::{ClockId, clock_gettime};
use types::Policy;

const SIZE: usize = 100_000;
const MOST: Duration = Duration::from_millis(50);

fn filled(unit: &str) -> String {
    unit.repeat(SIZE / unit.len())
}

fn nested(before: &str, open: &str, middle: &str, close: &str) -> String {
    let levels = (SIZE - before.len()) / (open.len() + close.len()).max(1);
    format!("{before}{}{middle}{}", open.repeat(levels), close.repeat(levels))
}

/// Nested as deep as is still read, again and again.
fn nearly(language: Language, before: &str, (open, middle, close): (&str, &str, &str), after: &str) -> String {
    let shape = |levels: usize| format!("{before}{}{middle}{}{after}", open.repeat(levels), close.repeat(levels));
    let is_read = |levels: &usize| {
        let report = check(shape(*levels).as_bytes(), language, &Options::default());
        !report.findings.iter().any(|finding| finding.rule.ends_with("too_deep"))
    };
    let levels = (1..499).rev().step_by(3).find(is_read).unwrap_or(1);
    filled(&shape(levels))
}

fn python() -> Vec<String> {
    let mut shapes: Vec<String> = [
        "x = f(a, b)[0] + 1\n",
        "d={'a':os,'b':d}\nd['a']['b']\n",
        "[chr(c) for c in [1,2,3,4,5,6,7,8]]\n",
        "x.append(x)\nx=[x,x]\n",
        "x=y['aaaa'][1:-1:2]\ny[x]=y\n",
        "f=lambda a=f:f()\n",
        "'%s%c%(a)s'%{'a':1}\n'{a}{b}'.format(a=1)\n",
        "timeit.timeit('x=1')\n",
        "match x:\n case [a,{'b':c}]:\n  a=c\n",
        "def f():\n return f\nf()()\n",
        "import os\n",
        "os.system('id')\n",
        "a = os\nb = a\nc = b\n",
        "a=b\n",
        "t=t+t\n",
        "t+=t\n",
        "import a.b.c.d as e\n",
        "x = 'rm -rf /'\n",
        "'rm rm rm rm'\n",
        "x='rm rm rm rm rm '\n",
        "def f(a,b):\n return a\n",
        "class A:\n x=1\n",
        "f'{a}{b}'\n",
        "x = [1,2,3]\n",
        "lambda: 0\n",
        "a,b=b,a\n",
        "for i in x: pass\n",
        "while 1: pass\n",
        "eval(a)\n",
        "getattr(os,'x')\n",
        "x.y.z.w()\n",
        "''.join(['a','b'])\n",
        "\\\n",
        "\t",
        " ",
        "\n",
        "#",
        "'",
        "\"\"\"",
        "0",
        "é",
        "\u{0}",
        "((",
        "))",
        "@a\n",
        "*",
        "global x\n",
        "try:\n x\nexcept: pass\n",
        "x:=1\n",
        "from a import *\n",
        "s.split()\n",
        "\"%s\"%s\n",
        "s.replace('a','b')\n",
        "x['a']\n",
        "import os;a=[os,os,os];a[0].system\n",
    ]
    .iter()
    .map(|unit| filled(unit))
    .collect();
    shapes.extend([
        nested("x = ", "(", "1", ")"),
        nested("x = ", "[", "1", "]"),
        nested("x = ", "{1:", "1", "}"),
        nested("x = ", "-", "1", ""),
        nested("x = ", "1+", "1", ""),
        nested("x = ", "lambda a: ", "a", ""),
        nested("x = a", ".b", "", ""),
        nested("x = a", "(1)", "", ""),
        nested("x = ", "f'{", "1", "}'"),
        nested("with ", "(", "a", ")"),
        nested("match ", "(", "a", ")"),
        nested("x = ", "1 if a else ", "1", ""),
        nested("x = ", "'a' + ", "'b'", ""),
        nested("x = ", "'a' ", "'b'", ""),
        nested("x = ", "not ", "1", ""),
        nested("del ", "(", "a", ")"),
        nested("x = ", "await ", "1", ""),
        nested("print(", "*", "a", ""),
        nested("x: ", "a[", "b", "]"),
        (0..400).map(|n| format!("{}if x:\n", " ".repeat(n))).collect::<Vec<_>>().concat(),
        nearly(Language::Python, "x=", ("(lambda a=", "1", ":1)"), "\n"),
        nearly(Language::Python, "x=", ("{'a':", "os", "}"), "\n"),
        nearly(Language::Python, "x=", ("[chr(i) for i in ", "[1,2]", "]"), "\n"),
        (0..SIZE / 22).fold("def f():\n".to_owned(), |text, n| text + &format!(" global x{n}\n x{n}=1\n")),
        format!("class A:\n{}", filled(" x=1\n")),
        nearly(Language::Python, "x=", ("(", "1", ")"), "\n"),
        nearly(Language::Python, "x=", ("[", "1", "]"), "\n"),
        nearly(Language::Python, "x=", ("lambda a:", "a", ""), "\n"),
        nearly(Language::Python, "x=a", (".b", "", ""), "\n"),
        nearly(Language::Python, "x=", ("'a'+", "'b'", ""), "\n"),
        nearly(Language::Python, "(", ("(", "a", ",b)"), ",c)=x\n"),
        nearly(Language::Python, "x=", ("f(", "os", ")"), "\n"),
        nearly(Language::Python, "x=", ("[i for i in ", "x", "]"), "\n"),
        format!("t='{}'\n{}", "rm -rf ".repeat(30), filled("t+t\n")),
        format!("l=[{}]\n{}", "'rm ',".repeat(30), filled("''.join(l)\n")),
        format!("{}{}", (0..3000).map(|n| format!("a{n}=os\n")).collect::<Vec<_>>().concat(), filled("a1.system\n")),
    ]);
    shapes
}

fn javascript(language: Language) -> Vec<String> {
    let mut shapes: Vec<String> = [
        "x = f(a, b)[0] + 1;\n",
        "const a = require('fs');\n",
        "let a=b\n",
        "a=b\n",
        "t=t+t;",
        "function f(a){return a}\n",
        "class A{m(){}}\n",
        "`${a}`;",
        "`",
        "'",
        "/",
        "/*",
        "//\n",
        "(",
        "[",
        "{",
        "}",
        ")",
        "<",
        "a<b,",
        "x=>",
        "if(a);else ",
        "if(a)",
        "a:",
        "import a from 'a';\n",
        "eval(a);",
        "a.b.c.d();",
        "\u{2028}",
        "é",
        "\\",
        "0",
        "1.",
        "/a/.b;",
        "\u{0}",
        "async ",
        "x++ / 2;",
        "{}/a/",
        "process.env.X;",
        "let{a,b}=c;",
        "for(;;){}",
        "'a'.replace('a','b');",
        "@a ",
        "#a ",
        "?.",
        "...",
        "new ",
        "a?b:",
        "<!--\n",
        "a\n",
        "y=[1,2,3];",
    ]
    .iter()
    .map(|unit| filled(unit))
    .collect();
    shapes.extend([
        format!("import '{}'", filled("a/")),
        format!("export * from '{}'", filled("a/")),
        filled("x={...x,a:x};x.a.b;"),
        filled("(c=>c)(x);a.push(a);"),
        filled("x.then(y=>y.z);x=[x,x];x[0];"),
        nested("x=", "(", "1", ")"),
        nested("x=", "[", "1", "]"),
        nested("x=", "{a:", "1", "}"),
        nested("x=", "`${", "1", "}`"),
        nested("x=", "1+", "1", ""),
        nested("x=a", ".b", "", ""),
        nested("x=", "(a)=>", "1", ""),
        nested("x=", "(a=", "1", ")=>1"),
        nested("x=", "- ", "1", ""),
        nested("x=", "f(", "1", ")"),
        nested("x=", "async(a=", "1", ")=>1"),
        nested("", "{", "", "}"),
        nearly(language, "x=", ("(", "1", ")"), ";"),
        nearly(language, "x=", ("(a=", "1", ")=>1"), ";"),
        nearly(language, "x=", ("[", "1", "]"), ";"),
        nearly(language, "x=a", (".b", "", ""), ";"),
        nearly(language, "x=", ("1+", "1", ""), ";"),
        nearly(language, "x=", ("a=>", "1", ""), ";"),
        nearly(language, "x=", ("`${", "a", "}`"), ";"),
        nearly(language, "x=", ("async(a=", "1", ")=>1"), ";"),
        nearly(language, "x=", ("(", "a", ")=>b"), ";"),
        nearly(language, "x=", ("'a'+", "'b'", ""), ";"),
        nearly(language, "x=", ("<a>(", "1", ")"), ";"),
        nearly(language, "let x:", ("A<", "b", ">"), ";"),
        nearly(language, "x=", ("(a:(", "b", ")=>c)=>d"), ";"),
        nearly(language, "type A=", ("(a:", "b", ")=>c"), ";"),
        format!("t='{}';{}", "rm -rf ".repeat(30), filled("t+t;")),
    ]);
    shapes
}

fn bash() -> Vec<String> {
    let mut shapes: Vec<String> = [
        "echo hello world\n",
        "a ",
        "a| ",
        "a|b;",
        "a && ",
        "cat <<E\nx\nE\n",
        "cat <<E\n",
        "<<E ",
        "a=b\n",
        "a=$a$a\n",
        "$a\n",
        "${a}\n",
        "${a:-b}\n",
        "$(",
        "`",
        "`a`\n",
        "\\`",
        "'",
        "\"",
        "\\",
        "((",
        "))",
        "(",
        ")",
        "{ ",
        "} ",
        "if a; then b; fi\n",
        "if ",
        "case a in b) c;; esac\n",
        "for i in a b; do c; done\n",
        "while ",
        "f() { a; }\n",
        "a[;",
        "a[1]=2\n",
        "[[ a ]]\n",
        "[[ ",
        "eval 'a'\n",
        "bash -c 'echo a'\n",
        "rm -rf x\n",
        "x='rm rm rm'\n",
        "$((1))\n",
        "$((",
        "<(a) ",
        "@(a)",
        "#\n",
        "#",
        "\n",
        ";",
        "&",
        "a;",
        "trap 'a' b\n",
        "\u{0}",
        "é",
        "a=(b c)\n",
        "a=(",
        "{a,b,c}\n",
        "2>&1 ",
        "$'\\x41' ",
        "!",
        "time ",
        "echo ${a//b/c}\n",
        "find . -exec a \\;\n",
    ]
    .iter()
    .map(|unit| filled(unit))
    .collect();
    shapes.extend([
        nested("echo ", "$(echo ", "x", ")"),
        nested("", "( ", "x", " )"),
        nested("", "{ ", "x;", " };"),
        nested("", "if true; then ", "x;", " fi;"),
        nested("echo ", "\"$(echo ", "x", ")\""),
        nested("echo ", "${a:-", "b", "}"),
        nested("echo $((", "(", "1", ")"),
        format!("for i in {}; do {}; done", "a ".repeat(20), filled("$i x;").trim_end_matches(';')),
        filled("for i in a b c; do for j in a b c; do $i $j; done; done\n"),
        filled("xargs "),
        filled("find -exec "),
        filled("x+=a; $x\n"),
        filled("echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}\n"),
        filled("if x; then a=b; a=c; $a; fi\n"),
        filled("alias a=a; a; set -- a b; $@\n"),
        filled("echo ${a:-b} ${a#x} ${a[1]} ${!a}\n"),
        filled("echo aa | rev | xargs rm; $(echo a | rev)\n"),
        filled("python3 -c 'x = 1'\n"),
        filled("find / -exec a {} \\; -exec b {} +\n"),
        nearly(Language::Bash, "echo ", ("$(echo ", "x", ")"), "\n"),
        nearly(Language::Bash, "echo ", ("\"$(echo ", "x", ")\""), "\n"),
        nearly(Language::Bash, "", ("( ", "x", " )"), "\n"),
        nearly(Language::Bash, "echo ", ("$((1+", "1", "))"), "\n"),
        nearly(Language::Bash, "echo ", ("${a:-", "b", "}"), "\n"),
        format!("c='{}'\n{}", "echo a;".repeat(100), filled("eval \"$c\"\n")),
        format!("a='{}'\n{}", "rm -rf ".repeat(100), filled("$a$a\n")),
    ]);
    shapes
}

/// Modules that go out of sight.
fn python_out_of_sight() -> Vec<String> {
    ["f(os)\nx.system\n", "f(os)\nx['system']\ngetattr(os,y)()\n", "vars(os).items()\n[os,os]\n"].map(filled).into()
}

/// Words that go from one command to another.
fn bash_given() -> Vec<String> {
    vec![
        // What is walked twice at each level is walked for ever.
        nearly(Language::Bash, "echo ", ("$(:; cat <<< ", "x", ")"), "\n"),
        nearly(Language::Bash, "", ("{ read x; cat; } <<< $(:; ", "x", ")"), "\n"),
        nearly(Language::Bash, "x=1; if a; then x=2; fi; echo $x", ("$(echo $x ", "x", ")"), "\n"),
        filled("f() { \"$@\"; }; f a b; f a\n"),
        filled("f() { f \"$@\"; }; g() { f \"$@\"; }; g a\n"),
        format!("f() {{ {} }}\n{}", "\"$@\"; ".repeat(100), filled("f a b\n")),
        filled("x=$(curl a); eval \"$x\"; curl a -o b; sh b\n"),
        filled("a rm rm rm -r -f\n"),
        filled("a[$i]=b; a[$j]=c; ${a[1]} ${a[@]:1}\n"),
        filled("/bin/*[a-z]*?*[b]* x\n"),
        filled("echo a | while read x; do $x; done\n"),
    ]
}

#[test]
fn no_shape_takes_more_than_its_time() {
    let _turn = TURN.lock().unwrap();
    let options = Options { policy: Policy::Guard, ..Options::default() };
    let mut slow = Vec::new();
    for (language, shapes) in [
        (Language::Python, [python(), python_out_of_sight()].concat()),
        (Language::JavaScript, javascript(Language::JavaScript)),
        (Language::TypeScript, javascript(Language::TypeScript)),
        (Language::Bash, [bash(), bash_given()].concat()),
    ] {
        let mut worst = (Duration::ZERO, String::new());
        for shape in &shapes {
            // The best of three: the machine has other things to do.
            let took = (0..3).map(|_| time(shape, language, &options)).min().unwrap_or_default();
            let per = took * u32::try_from(SIZE).unwrap() / u32::try_from(shape.len().max(SIZE)).unwrap();
            let name: String = shape.chars().take(30).collect();
            if per > MOST {
                slow.push((language, name.clone(), per));
            }
            if per > worst.0 {
                worst = (per, name);
            }
        }
        println!("{language:?}: {} shapes, the slowest took {:?} for 100 KB: {:?}", shapes.len(), worst.0, worst.1);
    }
    // How fast a machine is at the moment decides no test; a blow-up does. The long form, on a quiet machine, is exact.
    if cfg!(debug_assertions) {
        slow.retain(|(.., took)| *took > MOST * 100);
    } else if std::env::var_os("SAGGAR_TEST_LONG").is_none() {
        slow.retain(|(.., took)| *took > MOST * 5);
    }
    assert!(slow.is_empty(), "{slow:#?}");
}

#[test]
fn a_small_program_costs_next_to_nothing() {
    let _turn = TURN.lock().unwrap();
    let options = Options::default();
    for (name, language, code) in [
        ("python", Language::Python, "import math\n\ndef area(r):\n    return math.pi * r ** 2\n\nprint(area(2))\n"),
        ("javascript", Language::JavaScript, "const area = (r) => Math.PI * r ** 2;\nconsole.log(area(2));\n"),
        ("bash", Language::Bash, "for i in 1 2 3; do\n  echo \"$i\"\ndone\n"),
    ] {
        let first = time(code, language, &options);
        let mut times: Vec<Duration> = (0..1000).map(|_| time(code, language, &options)).collect();
        times.sort_unstable();
        println!("{name}: {:?} for {} bytes, the first time {first:?}", times[500], code.len());
        assert!(cfg!(debug_assertions) || times[500] < Duration::from_millis(1), "{:?}", times[500]);
    }
}

/// Processor time of this process: the clock on the wall also counts what other programs do. The tests of this file
/// take turns for the same reason.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

static TURN: Mutex<()> = Mutex::new(());

fn time(code: &str, language: Language, options: &Options) -> Duration {
    let start = spent();
    std::hint::black_box(check(code.as_bytes(), language, options));
    spent().saturating_sub(start)
}
