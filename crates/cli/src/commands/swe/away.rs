//! Patches that a server grades which was named.

use std::path::Path;

use evals::jobs::{Order, Patches, SweOrder};
use evals::swe::prediction::Predictions;
use evals::swe::row;
use serde_json::Value;

use super::eval::{BackendOption, Eval};
use crate::failure::{Failure, print_json, visible};
use crate::interrupt::Interrupt;
use crate::jobs::{End, carry_out};
use crate::options::wrong;
use crate::remote::Server;
use crate::table::print;
use crate::terminal::Live;

impl Eval {
    pub(super) fn evaluate_away(&self, url: &str) -> Result<u8, Failure> {
        let away = self.repos.is_some() || self.wheels.is_some() || self.env_file.is_some() || self.force;
        if away || self.backend == BackendOption::Docker {
            return Err(wrong(
                "`--server` has repositories and wheels of its own: `--repos`, `--wheels`, `--env-file`, `--force` and `--backend docker` are for this machine"
                    .to_owned(),
            ));
        }
        let server = Server::at(url)?;
        let is_gold = self.source.predictions == Path::new("gold");
        let ids = &self.source.instance_ids;
        let predictions = if is_gold {
            Patches::Named("gold".to_owned())
        } else {
            let mut all = Predictions::read(&self.source.predictions)?;
            if !ids.is_empty() {
                all.keep(ids);
            }
            Patches::Given(all.by_id.into_values().collect())
        };
        let order = Order::Swe(SweOrder {
            instances: row::raw(&self.source.dataset, ids)?,
            predictions: Some(predictions),
            edits: self.edits(),
            repeat: Some(self.repeat),
            timeout_ms: u64::try_from(self.timeout.as_millis()).ok(),
            workers: self.workers.map(usize::from),
            validate_gold: self.validate_gold,
        });
        let interrupt = Interrupt::listen()?;
        let end = carry_out(&server, &order, &interrupt, |name, told| {
            if name == "instance" {
                Live::say(&format!("saggar: {}", line(told).join(" ")));
            }
        })?;
        let result = match end {
            End::Cancelled => {
                Live::say("saggar: cancelled");
                return Ok(130);
            }
            End::Result(result) => result,
        };
        let all: Vec<&Value> = result["instances"].as_array().into_iter().flatten().collect();
        let is_valid = all.iter().all(|told| told["state"] == "valid");
        if self.source.json {
            print_json(if self.validate_gold { &result["instances"] } else { &result["summary"] })?;
        } else {
            let rows: Vec<Vec<String>> = all.into_iter().map(line).collect();
            print(&["instance", "state", "seconds", ""], &rows, "")?;
        }
        Ok(u8::from(self.validate_gold && !is_valid))
    }
}

fn line(told: &Value) -> Vec<String> {
    let text = |name: &str| {
        let words = told[name].as_str().unwrap_or_default().lines().next().unwrap_or_default();
        words.chars().map(visible).collect::<String>()
    };
    let seconds = told["seconds"].as_f64().unwrap_or_default();
    vec![text("instance"), text("state"), format!("{seconds:.1}"), text("note")]
}
