//! The drivers, and how they are started.

use crate::language::recipe;

/// A language's driver for interpreters that stay.
#[derive(Debug)]
pub struct Driver {
    /// Name of its recipe.
    pub language: &'static str,
    /// Name of the recipe whose program runs the driver.
    pub(crate) program: &'static str,
    /// `{program}` is the interpreter, `{length}` how many bytes the driver has.
    argv: &'static [&'static str],
    source: &'static str,
    pub(super) interrupt: Interrupt,
}

/// How a driver's cell is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// By SIGINT to the process group.
    Signal,
    /// By an order with the cell's id; the driver sends the signal when it can bear it.
    Order,
}

/// Reads the driver from standard input, and nothing beyond it. No module of the user's is in its way. Nothing of what is
/// imported becomes garbage, so that nobody looks for any until all is there. The part before the form feed imports, while
/// a process beside it compiles the rest.
const PYTHON_BOOT: &str = "import gc,os,sys
gc.disable()
sys.path[:]=[p for p in sys.path if p]
n=int(sys.argv[1])
s=b''
while len(s)<n:s+=os.read(0,n-len(s))or sys.exit(1)
s,_,REST=s.partition(b'\\f')
exec(compile(s,'<saggar>','exec'))
exec(DRIVER())";

/// Gives Node's outputs names, by which the driver can read them: Node makes no pipes. Then reads the driver, as above.
const NODE_LAUNCH: &str = "d=$(mktemp -d)&&mkfifo \"$d/1\" \"$d/2\"&&\
    exec \"$1\" -e \"$2\" \"$d\" \"$3\" \"$4\" 3<&0 4>&1 0</dev/null 1<>\"$d/1\" 2<>\"$d/2\"";
const NODE_BOOT: &str = "{const n=+process.argv[3],b=Buffer.alloc(n);for(let a=0,r;a<n;a+=r){\
    try{r=require('fs').readSync(3,b,a,n-a)||process.exit(1)}catch(e){if(e.code!='EAGAIN')throw e;r=0}}eval(b.toString())}";

const DRIVERS: &[Driver] = &[
    Driver {
        language: "python",
        program: "python",
        argv: &["{program}", "-u", "-B", "-c", PYTHON_BOOT, "{length}"],
        source: concat!(
            include_str!("../language/driver/beside.py"),
            include_str!("../language/driver/session/python/begin.py"),
            "\x0c",
            include_str!("../language/driver/session/python/wire.py"),
            include_str!("../language/driver/session/python/interrupt.py"),
            include_str!("../language/driver/session/python/show.py"),
            include_str!("../language/driver/session/python/plain.py"),
            include_str!("../language/driver/session/python/later.py"),
            include_str!("../language/driver/session/python/rich.py"),
            include_str!("../language/driver/session/python/early.py"),
            include_str!("../language/driver/session/python/e2b.py"),
            include_str!("../language/driver/session/python/main.py"),
        ),
        interrupt: Interrupt::Signal,
    },
    Driver {
        language: "bash",
        program: "python",
        argv: &["{program}", "-u", "-B", "-c", PYTHON_BOOT, "{length}"],
        source: concat!(
            include_str!("../language/driver/beside.py"),
            include_str!("../language/driver/session/python/begin.py"),
            "\x0c",
            include_str!("../language/driver/session/python/wire.py"),
            include_str!("../language/driver/session/python/interrupt.py"),
            include_str!("../language/driver/session/python/show.py"),
            include_str!("../language/driver/session/python/plain.py"),
            include_str!("../language/driver/session/python/bash.py"),
            include_str!("../language/driver/session/python/main.py"),
        ),
        interrupt: Interrupt::Signal,
    },
    node("node", &node_argv("node")),
    node("typescript", &node_argv("typescript")),
];

const NODE: &str = include_str!("../language/driver/session/node.cjs");

const fn node(language: &'static str, argv: &'static [&'static str]) -> Driver {
    Driver { language, program: language, argv, source: NODE, interrupt: Interrupt::Order }
}

const fn node_argv(language: &'static str) -> [&'static str; 8] {
    ["/bin/sh", "-c", NODE_LAUNCH, "sh", "{program}", NODE_BOOT, language, "{length}"]
}

impl Driver {
    /// The driver of a language, by any of its names.
    #[must_use]
    pub fn of(language: &str) -> Option<&'static Self> {
        let name = recipe(language)?.name;
        DRIVERS.iter().find(|driver| driver.language == name)
    }

    /// Languages that have one, for messages.
    #[must_use]
    pub fn languages() -> String {
        DRIVERS.iter().map(|driver| driver.language).collect::<Vec<_>>().join(", ")
    }

    /// The words that start it with an interpreter at `program`; the first is what to execute.
    #[must_use]
    pub fn argv(&self, program: &str) -> Vec<String> {
        let length = self.source.len().to_string();
        self.argv.iter().map(|word| word.replace("{program}", program).replace("{length}", &length)).collect()
    }

    /// What is sent to it first.
    pub(super) fn source(&self) -> &'static str {
        self.source
    }
}
