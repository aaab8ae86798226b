//! How each language is compiled and run. Data only: a new language is a new row.

use types::Limits;

use crate::backend::WorkerKind;
use crate::engine::Harness;
use crate::error::RunError;

pub(super) const PYTHON_DRIVER: &str = "/opt/saggar/python.py";
pub(super) const NODE_DRIVER: &str = "/opt/saggar/node.cjs";
pub(super) const NODE_WORKER: &str = "/opt/saggar/node-worker.cjs";
pub(super) const PYTHON_JUDGE: &str = "/opt/saggar/judge.py";
pub(super) const NODE_JUDGE: &str = "/opt/saggar/judge.cjs";

/// How one language is compiled and run.
#[derive(Debug)]
pub struct Recipe {
    /// The name on the wire.
    pub name: &'static str,
    /// Other names that people use.
    pub aliases: &'static [&'static str],
    /// File endings.
    pub endings: &'static [&'static str],
    /// File name of code that has none.
    pub file: &'static str,
    /// Programs to look for, best first.
    pub programs: &'static [&'static str],
    /// How it is compiled, if it is.
    pub(crate) compile: Option<Step>,
    /// How it is run.
    pub(crate) run: Step,
    /// Arguments that make the program tell its version.
    pub(crate) version: &'static [&'static str],
    /// The oldest version that will do, as `(major, minor)` and as text.
    pub(crate) needs: Option<((u32, u32), &'static str)>,
    /// Who records an exception.
    pub(crate) recorder: Recorder,
    /// How it is started ahead of need, if its interpreter can be.
    pub(crate) worker: Option<Worker>,
    /// How the judge's harness is run with the code, if there is one for the language.
    pub(crate) judge: Option<Judge>,
}

/// How the judge's harness is run.
#[derive(Debug)]
pub(crate) struct Judge {
    pub(crate) run: Step,
    /// What a worker is told.
    pub(crate) order: Step,
    /// What a worker has imported for it, beside what all of them have; the harness itself is named by its file.
    pub(crate) preload: &'static [&'static str],
    /// What it has not, of what all of them usually have: judged code seldom imports it, and every fork would copy it.
    pub(crate) spare: &'static [&'static str],
}

/// The two ways to run code: as a command, and by an interpreter that waits.
pub(crate) struct Steps {
    pub(crate) run: &'static Step,
    pub(crate) order: &'static Step,
}

/// An interpreter that is started ahead of need.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) kind: WorkerKind,
    /// How it, or the zygote that forks it, is started; modules to preload are a zygote's arguments.
    pub(crate) start: Step,
    /// What it is told, in place of the command.
    pub(crate) order: Step,
}

/// A command. In its words `{program}` is the program found, `{file}` the code, `{stem}` its name without ending,
/// `{memory_mb}`, `{heap_mb}` and `{cpus}` the run's limits; `{args}` stands for all of the caller's arguments.
#[derive(Debug)]
pub(crate) struct Step {
    /// A program other than the recipe's own, looked for in the same way.
    pub(crate) program: Option<&'static str>,
    pub(crate) argv: &'static [&'static str],
    pub(crate) env: &'static [(&'static str, &'static str)],
}

/// Who tells the engine about an exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorder {
    /// Nobody: the language has no uncaught exceptions we can see.
    None,
    /// A driver leaves a record.
    Driver,
}

/// What the words of a step are filled with.
pub(crate) struct Fill<'a> {
    pub(crate) program: &'a str,
    pub(crate) file: &'a str,
    pub(crate) limits: &'a Limits,
    pub(crate) args: &'a [String],
}

impl Recipe {
    /// How code is run, by itself or by a harness.
    pub(crate) fn steps(&'static self, harness: Harness) -> Result<Steps, RunError> {
        match (harness, &self.judge) {
            (Harness::None, _) => {
                let order = self.worker.as_ref().map_or(&self.run, |worker| &worker.order);
                Ok(Steps { run: &self.run, order })
            }
            (Harness::Judge, Some(judge)) => Ok(Steps { run: &judge.run, order: &judge.order }),
            (Harness::Judge, None) => Err(RunError::Unsupported { what: format!("calling into {} code", self.name) }),
        }
    }

    /// What the recipe needs, if `version` is older than that.
    pub(crate) fn too_old(&self, version: &str) -> Option<&'static str> {
        self.needs.and_then(|(least, needs)| (numbers(version) < Some(least)).then_some(needs))
    }
}

/// The first two numbers of a version.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let start = version.find(|c: char| c.is_ascii_digit())?;
    let mut parts = version[start..].split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

impl Step {
    /// The command's words.
    pub(crate) fn argv(&self, fill: &Fill<'_>) -> Vec<String> {
        self.argv
            .iter()
            .flat_map(|word| if *word == "{args}" { fill.args.to_vec() } else { vec![fill.word(word)] })
            .collect()
    }

    /// Variables on top of the minimal environment.
    pub(crate) fn env(&self, fill: &Fill<'_>) -> Vec<(String, String)> {
        self.env.iter().map(|(name, value)| ((*name).to_owned(), fill.word(value))).collect()
    }
}

impl Fill<'_> {
    fn word(&self, word: &str) -> String {
        if !word.contains('{') {
            return word.to_owned();
        }
        let stem = self.file.rsplit_once('.').map_or(self.file, |(stem, _)| stem);
        let memory = self.limits.memory >> 20;
        let cpus = self.limits.cpus.ceil().to_string();
        word.replace("{program}", self.program)
            .replace("{file}", self.file)
            .replace("{stem}", stem)
            .replace("{memory_mb}", &memory.max(1).to_string())
            // What a garbage collector may use before the kernel's limit ends it.
            .replace("{heap_mb}", &(memory * 3 / 4).max(8).to_string())
            .replace("{cpus}", &cpus)
    }
}

const fn run(argv: &'static [&'static str]) -> Step {
    Step { program: None, argv, env: &[] }
}

const PLAIN: Recipe = Recipe {
    name: "",
    aliases: &[],
    endings: &[],
    file: "",
    programs: &[],
    compile: None,
    run: run(&["{program}", "/work/{file}", "{args}"]),
    version: &["--version"],
    needs: None,
    recorder: Recorder::None,
    worker: None,
    judge: None,
};

/// What a started Node is told.
const NODE_ORDER: Step = run(&["/work/{file}", "{args}"]);

/// Compiled to `/work/main`.
const BINARY: Step = Step { program: None, argv: &["/work/main", "{args}"], env: &[] };

/// A place that the judge's harness makes: what is found at home was not put there as a temporary file.
const JUDGED_AT_HOME: &[(&str, &str)] = &[("HOME", "/tmp/home")];

/// Every language.
pub(crate) const RECIPES: &[Recipe] = &[
    Recipe {
        name: "python",
        aliases: &["python3", "py"],
        endings: &["py"],
        file: "main.py",
        programs: &["python3", "python"],
        // Unbuffered: output written before a kill is output that was returned. No bytecode: it is no file of the run.
        run: run(&["{program}", "-u", "-B", PYTHON_DRIVER, "/tmp/.saggar-exception.json", "/work/{file}", "{args}"]),
        recorder: Recorder::Driver,
        worker: Some(Worker {
            kind: WorkerKind::Forked,
            start: Step {
                program: None,
                argv: &["{program}", "-u", "-B", PYTHON_DRIVER, "--zygote", "{args}"],
                // Threads do not survive a fork: preloaded packages must not start any.
                // And what is bound before the fork is bound for all.
                env: &[
                    ("OMP_NUM_THREADS", "1"),
                    ("OPENBLAS_NUM_THREADS", "1"),
                    ("MKL_NUM_THREADS", "1"),
                    ("LD_BIND_NOW", "1"),
                ],
            },
            order: run(&["/tmp/.saggar-exception.json", "/work/{file}", "{args}"]),
        }),
        judge: Some(Judge {
            run: Step {
                program: None,
                argv: &[
                    "{program}",
                    "-u",
                    "-B",
                    PYTHON_DRIVER,
                    "/tmp/.saggar-exception.json",
                    PYTHON_JUDGE,
                    "/work/{file}",
                ],
                env: JUDGED_AT_HOME,
            },
            order: Step {
                program: None,
                argv: &["/tmp/.saggar-exception.json", PYTHON_JUDGE, "/work/{file}"],
                env: JUDGED_AT_HOME,
            },
            preload: &["select", "linecache", PYTHON_JUDGE],
            spare: &["dataclasses", "datetime", "json"],
        }),
        ..PLAIN
    },
    Recipe {
        name: "bash",
        aliases: &["sh", "shell"],
        endings: &["sh", "bash"],
        file: "main.sh",
        programs: &["bash"],
        ..PLAIN
    },
    Recipe {
        name: "node",
        aliases: &["javascript", "js"],
        endings: &["js", "mjs", "cjs"],
        file: "main.js",
        programs: &["node", "nodejs"],
        run: run(&["{program}", "--max-old-space-size={heap_mb}", "--require", NODE_DRIVER, "/work/{file}", "{args}"]),
        recorder: Recorder::Driver,
        worker: Some(Worker {
            kind: WorkerKind::Started,
            start: run(&["{program}", "--max-old-space-size={heap_mb}", "--require", NODE_DRIVER, NODE_WORKER]),
            order: NODE_ORDER,
        }),
        judge: Some(Judge {
            run: run(&[
                "{program}",
                "--max-old-space-size={heap_mb}",
                "--require",
                NODE_DRIVER,
                NODE_JUDGE,
                "/work/{file}",
            ]),
            order: run(&[NODE_JUDGE, "/work/{file}"]),
            preload: &[],
            spare: &[],
        }),
        ..PLAIN
    },
    Recipe {
        name: "typescript",
        aliases: &["ts"],
        endings: &["ts", "mts", "cts"],
        file: "main.ts",
        programs: &["node", "nodejs"],
        run: run(&[
            "{program}",
            "--max-old-space-size={heap_mb}",
            "--experimental-strip-types",
            "--disable-warning=ExperimentalWarning",
            "--require",
            NODE_DRIVER,
            "/work/{file}",
            "{args}",
        ]),
        needs: Some(((22, 6), "Node 22.6, the first that strips types")),
        recorder: Recorder::Driver,
        worker: Some(Worker {
            kind: WorkerKind::Started,
            start: run(&[
                "{program}",
                "--max-old-space-size={heap_mb}",
                "--experimental-strip-types",
                "--disable-warning=ExperimentalWarning",
                "--require",
                NODE_DRIVER,
                NODE_WORKER,
            ]),
            order: NODE_ORDER,
        }),
        judge: Some(Judge {
            run: run(&[
                "{program}",
                "--max-old-space-size={heap_mb}",
                "--experimental-strip-types",
                "--disable-warning=ExperimentalWarning",
                "--require",
                NODE_DRIVER,
                NODE_JUDGE,
                "/work/{file}",
            ]),
            order: run(&[NODE_JUDGE, "/work/{file}"]),
            preload: &[],
            spare: &[],
        }),
        ..PLAIN
    },
    Recipe {
        name: "c",
        endings: &["c"],
        file: "main.c",
        programs: &["cc", "gcc", "clang"],
        compile: Some(run(&["{program}", "-O2", "-pthread", "-o", "main", "./{file}", "-lm"])),
        run: BINARY,
        ..PLAIN
    },
    Recipe {
        name: "cpp",
        aliases: &["c++", "cxx"],
        endings: &["cpp", "cc", "cxx"],
        file: "main.cpp",
        programs: &["c++", "g++", "clang++"],
        compile: Some(run(&["{program}", "-O2", "-pthread", "-o", "main", "./{file}"])),
        run: BINARY,
        ..PLAIN
    },
    Recipe {
        name: "rust",
        aliases: &["rs"],
        endings: &["rs"],
        file: "main.rs",
        programs: &["rustc"],
        compile: Some(run(&["{program}", "--edition", "2021", "-O", "-o", "main", "./{file}"])),
        run: BINARY,
        ..PLAIN
    },
    Recipe {
        name: "go",
        aliases: &["golang"],
        endings: &["go"],
        file: "main.go",
        programs: &["go"],
        compile: Some(Step {
            program: None,
            argv: &["{program}", "build", "-o", "main", "./{file}"],
            env: &[
                ("GOCACHE", "/tmp/go-cache"),
                ("GOPATH", "/tmp/go"),
                ("GO111MODULE", "off"),
                ("CGO_ENABLED", "0"),
                ("GOMAXPROCS", "2"),
            ],
        }),
        run: Step {
            program: None,
            argv: BINARY.argv,
            env: &[("GOMAXPROCS", "{cpus}"), ("GOMEMLIMIT", "{heap_mb}MiB")],
        },
        version: &["version"],
        ..PLAIN
    },
    Recipe {
        name: "java",
        endings: &["java"],
        file: "Main.java",
        programs: &["javac"],
        compile: Some(run(&["{program}", "-J-XX:+UseSerialGC", "-J-Xshare:auto", "-d", ".", "./{file}"])),
        run: Step {
            program: Some("java"),
            argv: &[
                "{program}",
                "-XX:+UseSerialGC",
                "-Xshare:auto",
                "-XX:ActiveProcessorCount={cpus}",
                "-Xmx{heap_mb}m",
                "-cp",
                "/work",
                "{stem}",
                "{args}",
            ],
            env: &[],
        },
        ..PLAIN
    },
    Recipe { name: "ruby", aliases: &["rb"], endings: &["rb"], file: "main.rb", programs: &["ruby"], ..PLAIN },
    Recipe { name: "perl", aliases: &["pl"], endings: &["pl"], file: "main.pl", programs: &["perl"], ..PLAIN },
    Recipe { name: "php", endings: &["php"], file: "main.php", programs: &["php"], ..PLAIN },
    Recipe {
        name: "lua",
        endings: &["lua"],
        file: "main.lua",
        programs: &["lua", "lua5.4", "lua5.3", "luajit"],
        version: &["-v"],
        ..PLAIN
    },
    Recipe {
        name: "r",
        aliases: &["R"],
        endings: &["R", "r"],
        file: "main.R",
        programs: &["Rscript"],
        run: run(&["{program}", "--vanilla", "/work/{file}", "{args}"]),
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(numbers("v22.6.0"), Some((22, 6)));
        assert_eq!(numbers("Python 3.11.7"), Some((3, 11)));
        assert!(numbers("v9.11.2") < numbers("v22.6.0"));
        assert_eq!(numbers("unknown"), None);
    }
}
