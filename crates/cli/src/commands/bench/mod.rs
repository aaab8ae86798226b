//! `saggar bench`: this host, ours beside the bare program and whatever peers are installed.

mod budgets;
mod contender;
mod daemon;
mod document;
mod e2b;
mod entries;
mod growth;
mod http;
mod judge;
mod latency;
mod machine;
mod memory;
mod peers;
mod plan;
mod process;
mod progress;
mod report;
mod show;
mod statistics;
mod table;
mod throughput;
mod work;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use engine::{Caller, Delivery, Engine, Found, RunError, Settings};
use types::{ErrorBody, ErrorCode, Isolation};

use crate::failure::{Failure, print_json};
use crate::interrupt::Interrupt;
use crate::options::wrong;
use contender::{Contender, Entry, Wrong, check};
use entries::{Field, Ground};
use machine::Machine;
use plan::{Only, Part, Plan, Selection};
use report::{LeftOut, Report};
use work::{Folder, Work};

/// Measure this host: ours beside plain python3 and whatever peers are installed
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar bench\n  saggar bench --only latency --only bubblewrap --only cold\n  saggar bench --markdown docs/BENCHMARKS.md\n  saggar bench judge --data HumanEval.jsonl.gz --markdown docs/BENCHMARKS.md\n  saggar bench e2b --client ~/venv/bin/python3\n\nTakes about five minutes; figures mean something only on a machine with nothing else to do.\n\nExit code: 0 if every budget was met, 1 if one was not, 125 if nothing could be measured."
)]
pub(crate) struct Bench {
    /// What to measure
    #[arg(value_enum, default_value = "run")]
    what: What,
    /// Print the report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// A few rounds only, to see that it works; figures mean little
    #[arg(long)]
    quick: bool,
    /// Rounds of the latency part [default: 300; with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: Option<u32>,
    /// A part (latency, throughput, memory, growth), a contender (nosite, cold, library, command, socket, bubblewrap, nsjail,
    /// firejail, isolate, docker) or a piece of work (hello, humaneval, bash, c) (repeatable)
    #[arg(long, value_name = "NAME", value_parser = plan::parse_only)]
    only: Vec<Only>,
    /// Rows of the `HumanEval` set, for `bench judge`; may be packed by gzip
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// A Python that has `e2b-code-interpreter`, for `bench e2b` [default: python3]
    #[arg(long, value_name = "PYTHON")]
    client: Option<PathBuf>,
    /// Also write the report to this file, as Markdown; what other kinds of `bench` wrote there stays
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Single runs
    Run,
    /// Judged tasks, beside the data set's own evaluator; needs --data
    Judge,
    /// E2B's own client against a server of ours
    E2b,
}

impl Bench {
    pub(crate) async fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        match self.what {
            What::Run => {}
            What::Judge => return self.judge(),
            What::E2b => return self.e2b(config),
        }
        let mut cancelled = Interrupt::listen()?.watch()?;
        // Dropping the measurement ends the daemon and removes the folder.
        tokio::select! {
            measured = self.measure(config) => self.tell(&measured?),
            _ = cancelled.wait_for(|cancelled| *cancelled) => Ok(130),
        }
    }

    fn e2b(&self, config: Option<&Path>) -> Result<u8, Failure> {
        let python = self.client.clone().or_else(|| peers::on_path("python3"));
        let python = python.ok_or_else(|| wrong("`bench e2b` needs `--client PYTHON`".to_owned()))?;
        let rounds = self.rounds.and_then(|rounds| usize::try_from(rounds).ok());
        let rounds = if self.quick {
            e2b::Rounds { warm: rounds.unwrap_or(3), cold: 1, anew: 1, alive: 10 }
        } else {
            e2b::Rounds { warm: rounds.unwrap_or(100), cold: 10, anew: 30, alive: 100 }
        };
        let report = e2b::measure(config, &python, &rounds)?;
        if self.json {
            print_json(&report)?;
        } else {
            let put = io::stdout().lock().write_all(e2b::text(&report).as_bytes());
            put.map_err(|source| RunError::Output { path: "standard output".into(), source })?;
        }
        Ok(u8::from(!report.met))
    }

    fn judge(&self) -> Result<u8, Failure> {
        let Some(data) = &self.data else {
            return Err(wrong("`bench judge` needs `--data HumanEval.jsonl`".to_owned()));
        };
        let rounds = self.rounds.and_then(|rounds| usize::try_from(rounds).ok());
        let rounds = rounds.unwrap_or(if self.quick { 1 } else { 5 });
        let report = judge::measure(data, rounds, machine::cores())?;
        if let Some(path) = &self.markdown {
            document::write_section(path, &judge::markdown(&report))?;
        }
        if self.json {
            print_json(&report)?;
        } else {
            let put = io::stdout().lock().write_all(judge::text(&report).as_bytes());
            put.map_err(|source| RunError::Output { path: "standard output".into(), source })?;
        }
        Ok(u8::from(!report.met))
    }

    async fn measure(&self, config: Option<&Path>) -> Result<Report, Failure> {
        let plan = self.plan();
        let folder = Folder::new().map_err(|error| cannot("make a folder for the programs", &error))?;
        let settings = Settings { state: folder.library(), ..Settings::load(config)? };
        let python = python(&settings)?;
        let engine = Arc::new(entries::open_engine(settings.clone())?);
        let isolation = first_run(&engine, &folder).await?;
        let saggar = std::env::current_exe().map_err(|error| cannot("find our own program", &error))?;
        let saggar = saggar.display().to_string();
        let only = &plan.only;
        let ground =
            Ground { folder: &folder, settings: &settings, config, engine: &engine, python: &python, saggar, only };
        let field = ground.field()?;
        let machine = Machine::look(&python.program);
        let mut report = self.parts(&plan, &engine, &folder, &field, (machine, isolation)).await?;
        report.machine.load_after = machine::load();
        report.remarks = report.doubts();
        report.budgets = budgets::judge(&report);
        let is_partial = self.quick || !plan.only.is_everything();
        if !plan.only.is_everything() {
            report.budgets.retain(|budget| budget.value.is_some());
        }
        report.met = report.budgets.iter().all(|budget| budget.met.unwrap_or(is_partial));
        Ok(report)
    }

    fn plan(&self) -> Plan {
        let only = Selection::new(self.only.clone());
        let plan = if self.quick { Plan::quick(only) } else { Plan::full(only) };
        let rounds = self.rounds.and_then(|rounds| usize::try_from(rounds).ok());
        Plan { rounds: rounds.unwrap_or(plan.rounds), ..plan }
    }

    /// What would measure this again.
    fn command(&self, plan: &Plan) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let rounds = self.rounds.map(|rounds| format!(" --rounds {rounds}")).unwrap_or_default();
        format!("saggar bench{quick}{rounds}{}", plan.only.options())
    }

    async fn parts(
        &self,
        plan: &Plan,
        engine: &Arc<Engine>,
        folder: &Folder,
        field: &Field,
        (machine, isolation): (Machine, Isolation),
    ) -> Result<Report, Failure> {
        let mut report = Report {
            saggar: env!("CARGO_PKG_VERSION"),
            date: machine::today(),
            command: self.command(plan),
            machine,
            isolation,
            rows: Vec::new(),
            throughput: Vec::new(),
            memory: None,
            growth: None,
            remarks: Vec::new(),
            left_out: field.left_out.clone(),
            budgets: Vec::new(),
            met: false,
        };
        if plan.only.part(Part::Latency) {
            report.rows = latency::measure(&field.entries, plan).await;
            for row in &mut report.rows {
                let version = field.versions.iter().find(|(contender, _)| *contender == row.contender);
                row.version = version.map(|(_, version)| version.clone());
            }
        }
        if plan.only.part(Part::Throughput) {
            let entries: Vec<Entry> = field.entries.iter().filter(|entry| is_loaded(entry)).cloned().collect();
            report.throughput = throughput::measure(&entries, plan).await;
        }
        if plan.only.part(Part::Memory) {
            report.memory = memory::measure().await;
            if report.memory.is_none() {
                let why = "the engine keeps no idle workers".to_owned();
                report.left_out.push(LeftOut { what: "memory of an idle worker".to_owned(), why });
            }
        }
        if plan.only.part(Part::Growth) && plan.only.contender(Contender::Library) {
            let request = entries::request(Work::Hello, folder)?;
            report.growth = Some(growth::measure(engine, &request, plan).await);
        }
        Ok(report)
    }

    fn tell(&self, report: &Report) -> Result<u8, Failure> {
        if let Some(path) = &self.markdown {
            document::write(path, &show::markdown(report))?;
        }
        if self.json {
            print_json(report)?;
        } else {
            let put = io::stdout().lock().write_all(show::text(report).as_bytes());
            put.map_err(|source| RunError::Output { path: "standard output".into(), source })?;
        }
        Ok(u8::from(!report.met))
    }
}

/// Peers are measured one at a time only; the others are asked by many callers too.
fn is_loaded(entry: &Entry) -> bool {
    !entry.contender.is_peer() && entry.contender != Contender::Nosite && entry.work == Work::Hello
}

/// The interpreter file that our own runs use.
fn python(settings: &Settings) -> Result<Found, RunError> {
    let missing = || RunError::InterpreterMissing { language: "python", programs: "python3, python".to_owned() };
    engine::program_of("python", settings).ok_or_else(missing)
}

/// Sees that a run is carried out at all, and what isolates it.
async fn first_run(engine: &Engine, folder: &Folder) -> Result<Isolation, Failure> {
    let request = entries::request(Work::Hello, folder)?;
    let result = engine.execute(&Caller::default(), request, Delivery::default()).await?;
    check(&result, Work::Hello.expected()).map_err(|wrong: Wrong| cannot("run `hello`", &wrong))?;
    Ok(result.isolation)
}

fn cannot(what: &str, why: &dyn std::fmt::Display) -> Failure {
    let hint = "`saggar doctor` tries what a run needs; set TMPDIR to a folder that you may write".to_owned();
    ErrorBody { code: ErrorCode::SandboxFailed, message: format!("cannot {what}: {why}"), hint }.into()
}
