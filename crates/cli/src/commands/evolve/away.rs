//! An evolution that a server carries out which was named: the task and its files travel in the order.

use std::path::Path;

use evals::evolve::Spec;
use evals::jobs::{EvolveOrder, Order};
use serde_json::{Value, json};

use super::Evolve;
use crate::failure::{Failure, print_json, unheard, visible};
use crate::interrupt::Interrupt;
use crate::jobs::{End, carry_out};
use crate::options::wrong;
use crate::remote::Server;
use crate::terminal::Live;

impl Evolve {
    pub(super) fn evolve_away(&self, url: &str, task: &Path) -> Result<u8, Failure> {
        if self.out.is_some() || self.resume.is_some() || self.base_url.is_some() {
            return Err(wrong(
                "`--server` keeps the run and knows its models: `--out`, `--resume` and `--base-url` are for this machine"
                    .to_owned(),
            ));
        }
        let server = Server::at(url)?;
        let order = Order::Evolve(EvolveOrder {
            task: None,
            files: Spec::files_of(task)?,
            max_iterations: self.max_iterations,
            target_score: self.target_score,
            seed: self.seed,
            model: self.model.clone(),
        });
        let interrupt = Interrupt::listen()?;
        let events = self.events;
        let mut failed = None;
        let end = carry_out(&server, &order, &interrupt, |name, data| {
            if events {
                let mut line = data.clone();
                line["event"] = name.into();
                failed = failed.take().or(print_json(&line).err());
            } else if name == "evaluated" && data["accepted"] == true {
                let (iteration, score) = (&data["iteration"], &data["score"]);
                Live::say(&format!("saggar: iteration {iteration}: score {score}"));
            }
        })?;
        if let Some(failure) = failed {
            return Err(failure);
        }
        match end {
            End::Cancelled => {
                Live::say("saggar: cancelled");
                Ok(130)
            }
            End::Result(result) => self.tell_away(&result),
        }
    }

    fn tell_away(&self, result: &Value) -> Result<u8, Failure> {
        if self.json {
            print_json(result)?;
        } else if self.events {
            let mut line = result.clone();
            line["event"] = json!("ended");
            print_json(&line)?;
        } else {
            let stop: String = result["stop_reason"].as_str().unwrap_or_default().chars().map(visible).collect();
            let (iterations, best) = (&result["iterations"], &result["best"]["score"]);
            let id: String = result["id"].as_str().unwrap_or_default().chars().map(visible).collect();
            Live::say(&format!("saggar: best score {best}; stopped by {stop} after {iterations} iterations; {id}"));
            if let Some(code) = result["best"]["code"].as_str() {
                use std::io::Write;
                std::io::stdout().lock().write_all(code.as_bytes()).map_err(unheard)?;
            }
        }
        Ok(u8::from(result["target_reached"] != true))
    }
}
