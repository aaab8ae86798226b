//! `saggar run`: a program in a fresh sandbox.

use std::os::fd::OwnedFd;
use std::path::Path;

use clap::Args;
use engine::{Caller, Delivery, Engine, OutFolder, OwnFiles, Packages, Settings, Stdin};
use types::{BackendKind, Compile, ExecRequest, ExecResult, LimitKind, Outcome};

use super::image::Said;
use crate::away;
use crate::client;
use crate::failure::{Failure, print_json};
use crate::in_runtime;
use crate::interrupt::Interrupt;
use crate::options::{Options, wrong};
use crate::program::Program;
use crate::remote::Server;
use crate::terminal::Live;
use crate::window::Window;

/// Run a program in a fresh sandbox
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar run -c 'print(\"hello\")'\n  saggar run script.py --timeout 5s --memory 256M -- first second\n  echo 'echo hi' | saggar run -l bash -\n\nExit code: the program's own; 124 time limit, 137 another limit, 128+N signal N, 126 refused, 130 cancelled, 125 saggar failed, 2 wrong usage."
)]
pub(crate) struct Run {
    #[command(flatten)]
    program: Program,
    /// Install what the script's own metadata asks for (PEP 723), and run it with that
    #[arg(long)]
    script_deps: bool,
    /// The program's own arguments
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
    #[command(flatten)]
    pub(crate) options: Options,
}

impl Run {
    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let mut request = self.options.request()?;
        self.program.put_into(&mut request)?;
        let is_python =
            request.language.as_deref().is_none_or(|language| matches!(language, "python" | "python3" | "py"));
        if let Some(code) = request.code.as_ref().filter(|_| is_python) {
            match self.with_dependencies(&code.0, &request, config)? {
                Dependencies::None => {}
                Dependencies::Image(image) => request.image = Some(image),
                Dependencies::Packages(packages) => {
                    request.args = self.args;
                    // What was installed is in this process, and so is the run.
                    let ends = Ends::new(&self.options, self.program.is_stdin())?;
                    let (result, live) = locally(&self.options.caller(), request, ends, Some(packages), config)?;
                    return tell(&result, live);
                }
            }
        }
        request.args = self.args;
        carry_out(request, &self.options, self.program.is_stdin(), config)
    }

    /// The packages that a script's metadata names, if those are wanted, as the backend of the run takes them.
    fn with_dependencies(
        &self,
        code: &[u8],
        request: &ExecRequest,
        config: Option<&Path>,
    ) -> Result<Dependencies, Failure> {
        let image = request.image.clone();
        // Cheap to see, and most have none.
        if !code.windows(12).any(|bytes| bytes == b"# /// script") {
            return Ok(Dependencies::None);
        }
        let settings = Settings::load(config)?;
        let backend = request.backend.unwrap_or(settings.backend);
        let engine = Engine::open(settings)?;
        let wanted = self.script_deps || (backend == BackendKind::Native && engine.installs_for_scripts());
        if !wanted {
            return Ok(Dependencies::None);
        }
        let (caller, mut said) = (self.options.caller(), Said::new());
        let found = match backend {
            BackendKind::Native => in_runtime(async {
                let built = engine.image_for_script(&caller, code, image, Some(&mut said)).await?;
                Ok(built.map_or(Dependencies::None, Dependencies::Image))
            }),
            BackendKind::E2b if self.options.server.is_none() => in_runtime(async {
                let packages = engine.packages_for_script(&caller, code, image, Some(&mut said)).await?;
                Ok(packages.map_or(Dependencies::None, Dependencies::Packages))
            }),
            BackendKind::E2b => Err(wrong("`--script-deps` on the backend `e2b` is without `--server`".to_owned())),
            BackendKind::Docker => {
                Err(wrong("`--script-deps` is for the backends `native` and `e2b`, not for `docker`".to_owned()))
            }
        };
        said.bar.finish_and_clear();
        found
    }
}

/// What a script's metadata came to.
enum Dependencies {
    /// It asks for nothing, or nobody wants it to.
    None,
    /// An image that has them.
    Image(String),
    /// They were installed where the run will be.
    Packages(Packages),
}

/// What connects a run with our caller, wherever it is carried out.
pub(crate) struct Ends {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) live: Option<Live>,
    pub(crate) out: Option<OutFolder>,
    pub(crate) interrupt: Interrupt,
    /// Our terminal, where the program has one of the same size.
    pub(crate) window: Option<Window>,
}

impl Ends {
    fn new(options: &Options, stdin_is_taken: bool) -> Result<Self, Failure> {
        Ok(Self {
            stdin: options.stdin(stdin_is_taken)?,
            live: (!options.json).then(|| Live::new(options.raw)),
            out: options.out.as_deref().map(OutFolder::open).transpose()?,
            interrupt: Interrupt::listen()?,
            window: None,
        })
    }
}

/// Carries out a request, by the server if there is one, and prints what became of it; `exec` does the same.
pub(crate) fn carry_out(
    request: ExecRequest,
    options: &Options,
    stdin_is_taken: bool,
    config: Option<&Path>,
) -> Result<u8, Failure> {
    let caller = options.caller();
    let mut ends = Ends::new(options, stdin_is_taken)?;
    if let Some(url) = &options.server {
        let result = away::execute(&Server::at(url)?, request, &mut ends)?;
        return tell(&result, ends.live);
    }
    let served = options.server_state(config).and_then(|state| client::execute(&state, &caller, &request, &mut ends));
    let (result, live) = match served {
        Some(result) => (result?, ends.live),
        None => locally(&caller, request, ends, None, config)?,
    };
    tell(&result, live)
}

/// Prints what became of a run, or what is left to say where its output was shown; returns its exit code.
pub(crate) fn tell(result: &ExecResult, live: Option<Live>) -> Result<u8, Failure> {
    if let Some(mut live) = live {
        live.finish();
        talk(result, &mut live);
    } else {
        print_json(result)?;
    }
    Ok(exit_code(&result.outcome))
}

/// Carries out a request in this process.
fn locally(
    caller: &Caller,
    request: ExecRequest,
    ends: Ends,
    packages: Option<Packages>,
    config: Option<&Path>,
) -> Result<(ExecResult, Option<Live>), Failure> {
    let Ends { stdin, mut live, mut out, interrupt, window: _ } = ends;
    let engine = Engine::open(Settings::load(config)?)?;
    engine.expect_run();
    let result = in_runtime(async {
        let delivery = Delivery {
            stdin: Some(stdin.map_or(Stdin::Bytes(Vec::new()), Stdin::Descriptor)),
            live: live.as_mut().map(|live| live as &mut dyn engine::Output),
            inputs: Some(&mut OwnFiles),
            out: out.as_mut().map(|out| out as &mut dyn engine::Receive),
            cancel: Some(interrupt.watch()?),
            packages,
            ..Delivery::default()
        };
        Ok(engine.execute(caller, request, delivery).await?)
    })?;
    // Everything is written down: the caller need not wait while it is put away. The keeper ends when we do.
    engine.leave();
    Ok((result, live))
}

/// What a person wants to know beyond the program's own output.
fn talk(result: &ExecResult, live: &mut Live) {
    use engine::{Output, Stream};
    if let Some(Compile { ok: false, stdout, stderr, .. }) = &result.compile {
        let _ = live.write(Stream::Err, stdout.as_bytes());
        let _ = live.write(Stream::Err, stderr.as_bytes());
    }
    match &result.outcome {
        Outcome::Exited { .. } => {}
        Outcome::Cancelled => Live::say("saggar: cancelled"),
        Outcome::Signaled { .. } | Outcome::LimitExceeded { .. } | Outcome::Refused { .. } => {
            // A refusal has its reasons, and all of them matter.
            let most = if let Outcome::Refused { rule } = &result.outcome {
                Live::say(&format!("saggar: refused by {rule}"));
                10
            } else {
                1
            };
            for feedback in result.feedback.iter().take(most) {
                Live::say(&format!("saggar: {}\nhint: {}", feedback.message, feedback.hint));
            }
        }
    }
    for (cut, name, bytes) in [
        (result.stdout_truncated, "stdout", result.stdout_bytes),
        (result.stderr_truncated, "stderr", result.stderr_bytes),
    ] {
        if cut {
            Live::say(&format!(
                "saggar: {name} was cut: it has {bytes} bytes in all; raise --output-limit to see more"
            ));
        }
    }
    for remark in result.feedback.iter().filter(|feedback| feedback.kind == "files") {
        Live::say(&format!("saggar: {}", remark.message));
    }
}

/// The contract's exit code of an outcome.
pub(crate) fn exit_code(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Exited { code } => u8::try_from(code & 0xff).unwrap_or(1),
        Outcome::Signaled { signal } => u8::try_from(128 + (signal & 0x7f)).unwrap_or(255),
        Outcome::LimitExceeded { limit: LimitKind::Wall | LimitKind::Cpu } => 124,
        Outcome::LimitExceeded { limit: LimitKind::Memory | LimitKind::Disk | LimitKind::Inodes | LimitKind::Pids } => {
            137
        }
        Outcome::Refused { .. } => 126,
        Outcome::Cancelled => 130,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_the_contract() {
        for (outcome, code) in [
            (Outcome::Exited { code: 0 }, 0),
            (Outcome::Exited { code: 77 }, 77),
            (Outcome::Signaled { signal: 11 }, 139),
            (Outcome::LimitExceeded { limit: LimitKind::Wall }, 124),
            (Outcome::LimitExceeded { limit: LimitKind::Cpu }, 124),
            (Outcome::LimitExceeded { limit: LimitKind::Memory }, 137),
            (Outcome::Refused { rule: "x".to_owned() }, 126),
            (Outcome::Cancelled, 130),
        ] {
            assert_eq!(exit_code(&outcome), code, "{outcome:?}");
        }
    }
}
