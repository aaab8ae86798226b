//! `saggar usage`: what models have cost.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::Args;
use engine::usage::{Totals, UsageReport};
use engine::{Engine, RunError, Settings};
use types::parse_duration;

use crate::failure::{Failure, print_json};
use crate::remote::{Content, Server, query};

/// Show what models have cost
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar usage\n  saggar usage --since 24h --json\n\nEvery call counts, failed ones and repeated tries too. A cost is unknown where the model has no price, or a call\nbrought no count of tokens; prices are set in the settings, in US dollars for a million tokens:\n\n  [prices]\n  \"my-model\" = { input = 0.15, cached = 0.075, output = 0.60 }"
)]
pub(crate) struct Usage {
    /// Only calls that are not older, such as 30m, 24h or 7d
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    since: Option<Duration>,
    /// Ask the server at this address, with the key in `SAGGAR_API_KEY`, what its models have cost
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Print the sums as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Usage {
    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let report = if let Some(url) = &self.server {
            let since = self.since.map(|span| format!("{}ms", span.as_millis()));
            Server::at(url)?.json("GET", &format!("/v1/usage{}", query(&[("since", since)])), Content::Nothing)?
        } else {
            // Before the beginning of time is since ever.
            let since = self.since.and_then(|span| SystemTime::now().checked_sub(span));
            Engine::open(Settings::load(config)?)?.ledger()?.report(since).map_err(RunError::from)?
        };
        if self.json {
            print_json(&report)?;
        } else {
            let shown = io::stdout().lock().write_all(table(&report).as_bytes());
            shown.map_err(|source| RunError::Output { path: "standard output".into(), source })?;
        }
        Ok(0)
    }
}

fn table(report: &UsageReport) -> String {
    if report.lines.is_empty() {
        return "no model was asked\n".to_owned();
    }
    let head = ["component", "model", "calls", "failed", "prompt", "cached", "completion", "cost (USD)"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(report.lines.iter().map(|line| row(&line.component, &line.model, &line.totals)));
    rows.push(row("total", "", &report.total));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn row(component: &str, model: &str, totals: &Totals) -> [String; 8] {
    let counts = [totals.calls, totals.failed, totals.prompt_tokens, totals.cached_tokens, totals.completion_tokens];
    let [calls, failed, prompt, cached, completion] = counts.map(|count| count.to_string());
    // The name of a model comes from the settings, but may hold anything.
    let model = model.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    [component.to_owned(), model, calls, failed, prompt, cached, completion, cost(totals)]
}

fn cost(totals: &Totals) -> String {
    match totals.cost_usd() {
        Some(cost) => format!("{cost:.6}"),
        None if totals.known_cost_usd > 0.0 => {
            format!("unknown for {} calls, else {:.6}", totals.unpriced_calls, totals.known_cost_usd)
        }
        None => "unknown".to_owned(),
    }
}

/// Names to the left, numbers to the right.
fn line(row: &[String; 8], widths: &[usize]) -> String {
    let cell = |(index, (text, width)): (usize, (&String, &usize))| {
        if index < 2 { format!("{text:width$}") } else { format!("{text:>width$}") }
    };
    let cells: Vec<String> = row.iter().zip(widths).enumerate().map(cell).collect();
    format!("{}\n", cells.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::usage::Line;

    #[test]
    fn unknown_is_said_and_never_shown_as_nothing() {
        let priced = Totals { calls: 3, known_cost_usd: 0.25, prompt_tokens: 1200, ..Totals::default() };
        let unpriced = Totals { calls: 2, unpriced_calls: 2, ..Totals::default() };
        let line = |model: &str, totals| Line { component: "review".to_owned(), model: model.to_owned(), totals };
        let report = UsageReport::new(vec![line("gpt-4o-mini", priced), line("house", unpriced)]);
        let expected = "\
component  model        calls  failed  prompt  cached  completion                          cost (USD)
review     gpt-4o-mini      3       0    1200       0           0                            0.250000
review     house            2       0       0       0           0                             unknown
total                       5       0    1200       0           0  unknown for 2 calls, else 0.250000
";
        assert_eq!(table(&report), expected);
    }
}
