//! An evolution that somebody else asks for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::llm::Provider;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use types::{ExecRequest, FileContent, InputFile};

use super::{JobError, Progress, Rules, Site, Step};
use crate::evolve::{
    Event, Evolution, EvolveError, Generator, GeneratorKind, GeneratorSpec, ModelSpec, Models, Mutator, Overrides,
    Replay, Spec, Store, Use,
};
use crate::judge::Judge;

/// Iterations of one job.
const MOST_ITERATIONS: u64 = 100_000;
/// Programs that one job has under way, whatever the host has room for.
const MOST_PARALLEL: usize = 8;
/// Sandboxes that one evaluation may hold.
const PER_EVALUATION: usize = 2;
/// Further tries of a call to a model.
const MOST_RETRIES: u32 = 10;

/// An evolution, as it is asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvolveOrder {
    /// The task, with the fields of a `task.toml`; if absent, the files are a folder with one, or one of `OpenEvolve`'s.
    pub task: Option<Value>,
    /// What lies beside it.
    pub files: Vec<InputFile>,
    /// In place of the task's own.
    pub max_iterations: Option<u64>,
    /// In place of the task's own.
    pub target_score: Option<f64>,
    /// In place of the task's own.
    pub seed: Option<u64>,
    /// In place of all of the task's own.
    pub model: Option<String>,
}

/// An evolution that can be carried out.
pub struct Work {
    spec: Spec,
    /// The history that answers, for kind `replay`.
    earlier: Option<PathBuf>,
}

impl EvolveOrder {
    pub(super) fn plan(&self, rules: &Rules<'_>) -> Result<Work, JobError> {
        let overrides = Overrides {
            iterations: self.max_iterations,
            target: self.target_score,
            seed: self.seed,
            model: self.model.clone(),
            base_url: None,
        };
        let mut spec = Spec::carried(self.task.as_ref(), &self.carried()?, &overrides)?;
        if spec.budget.iterations > MOST_ITERATIONS {
            return Err(JobError::TooMuch(format!("a job has at most {MOST_ITERATIONS} iterations")));
        }
        let room = rules.places / rules.settings.running.max(1) / PER_EVALUATION;
        let most = room.clamp(1, MOST_PARALLEL);
        if spec.parallel > most {
            return Err(JobError::TooMuch(format!("`parallel` of a job is at most {most} here")));
        }
        let earlier = allow(&mut spec.generator, rules)?;
        spec.budget.cost_usd = spec.budget.cost_usd.into_iter().chain(rules.settings.max_cost_usd).reduce(f64::min);
        spec.budget.tokens = spec.budget.tokens.into_iter().chain(rules.settings.max_tokens).min();
        Ok(Work { spec, earlier })
    }

    fn carried(&self) -> Result<BTreeMap<String, Vec<u8>>, JobError> {
        let mut files = BTreeMap::new();
        for file in &self.files {
            let name = file.path.as_str();
            let bytes = match &file.content {
                FileContent::Text(text) => text.clone().into_bytes(),
                FileContent::Base64(text) => {
                    STANDARD.decode(text).map_err(|_| JobError::Form(format!("`{name}` is no base64")))?
                }
                FileContent::Host(_) => return Err(JobError::Form(format!("`{name}` has no content"))),
            };
            if files.insert(name.to_owned(), bytes).is_some() {
                return Err(JobError::Form(format!("`{name}` is there twice")));
            }
        }
        Ok(files)
    }
}

/// Sees that whoever proposes is one that others may ask, and fills in where he is found.
fn allow(generator: &mut GeneratorSpec, rules: &Rules<'_>) -> Result<Option<PathBuf>, JobError> {
    let refuse = |what: &str, hint| Err(JobError::NotAllowed { what: what.to_owned(), hint });
    let names_server =
        |model: &ModelSpec| model.base_url.is_some() || model.api_key_env.is_some() || model.provider.is_some();
    match generator.kind {
        GeneratorKind::Command => refuse(
            "a job cannot have a command of this host propose programs",
            "use the generator `mutate` or `model`, or run `saggar evolve` on your own machine",
        ),
        GeneratorKind::Manual => refuse(
            "a job cannot use a folder of this host for questions and answers",
            "use the generator `mutate` or `model`, or run `saggar evolve` on your own machine",
        ),
        GeneratorKind::Mutate => Ok(None),
        GeneratorKind::Replay => {
            let from = generator.from.as_deref().unwrap_or_default();
            let Some(folder) = (rules.earlier)(from) else {
                return refuse("`from` must be a job of yours", "`GET /v1/jobs` lists them");
            };
            Ok(Some(folder))
        }
        GeneratorKind::Model
            if generator.base_url.is_some()
                || generator.api_key_env.is_some()
                || generator.provider != Provider::default()
                || generator.models.iter().any(names_server) =>
        {
            refuse(
                "a job cannot name the address of a model's server, nor a variable with its key",
                "name a model alone; [jobs.models] of the server's settings says where it is",
            )
        }
        GeneratorKind::Model => {
            generator.retries = generator.retries.map(|retries| retries.min(MOST_RETRIES));
            let one = generator.model.take().map(|model| ModelSpec {
                model,
                provider: None,
                base_url: None,
                api_key_env: None,
                weight: 1.0,
            });
            // As everywhere, several come before one.
            let asked = if generator.models.is_empty() { one.into_iter().collect() } else { generator.models.clone() };
            generator.models = asked.into_iter().map(|model| known(model, rules)).collect::<Result<_, _>>()?;
            Ok(None)
        }
    }
}

/// A model by the name that the settings have for it.
fn known(asked: ModelSpec, rules: &Rules<'_>) -> Result<ModelSpec, JobError> {
    let Some(known) = rules.settings.models.get(&asked.model) else {
        return Err(JobError::NotAllowed {
            what: format!("the model `{}` is none that jobs may ask here", asked.model),
            hint: "[jobs.models] of the server's settings names those that jobs may ask",
        });
    };
    Ok(ModelSpec {
        model: known.model.clone().unwrap_or(asked.model),
        provider: Some(known.provider),
        base_url: known.base_url.clone(),
        api_key_env: known.api_key_env.clone(),
        weight: asked.weight,
    })
}

impl Work {
    pub(super) fn total(&self) -> u64 {
        self.spec.budget.iterations
    }

    pub(super) async fn carry_out(&self, site: &Site) -> Result<Value, JobError> {
        let store = Store::open(&site.folder, Use::Write(&self.spec))?;
        let generator = self.generator(site)?;
        let judge = Judge::slowed(Arc::clone(&site.engine), site.caller.clone(), ExecRequest::default());
        let listener = Arc::clone(&site.listener);
        let mut progress = Progress { total: self.total(), ..Progress::default() };
        let tell = move |event: &Event| {
            match event {
                Event::Started { resumed, .. } => progress.done = *resumed,
                Event::Proposed { .. } => {}
                Event::Evaluated { iteration, best, .. } => {
                    progress.done = progress.done.max(*iteration);
                    progress.best = Some(*best);
                }
                // Its result is told by whoever keeps the job.
                Event::Ended(_) => return,
            }
            let (name, data) = told(event);
            listener(Step { name, data, progress });
        };
        let evolution = Evolution::new(self.spec.clone(), store, generator, Arc::new(judge), Box::new(tell))?;
        let outcome = evolution.run().await?;
        Ok(for_others(json!(outcome), &site.id))
    }

    fn generator(&self, site: &Site) -> Result<Box<dyn Generator>, EvolveError> {
        Ok(match (self.spec.generator.kind, &self.earlier) {
            (GeneratorKind::Mutate, _) => Box::new(Mutator(self.spec.generator.mutations)),
            (GeneratorKind::Replay, Some(folder)) => Box::new(Replay::open(folder)?),
            // Nobody else was let in.
            _ => Box::new(Models::new(&self.spec.generator, &site.engine)?),
        })
    }
}

fn told(event: &Event) -> (&'static str, Value) {
    let name = match event {
        Event::Started { .. } => "started",
        Event::Proposed { .. } => "proposed",
        Event::Evaluated { .. } => "evaluated",
        Event::Ended(_) => "ended",
    };
    let mut data = json!(event);
    if let Some(fields) = data.as_object_mut() {
        for own in ["event", "folder", "id"] {
            fields.remove(own);
        }
    }
    (name, data)
}

/// A result under the job's name, without where it is kept.
fn for_others(mut outcome: Value, id: &str) -> Value {
    if let Some(fields) = outcome.as_object_mut() {
        fields.remove("folder");
        fields.insert("id".to_owned(), id.into());
    }
    outcome
}

#[cfg(test)]
mod tests {
    use engine::{JobModel, JobSettings};

    use super::*;

    fn plan(order: &Value, settings: &JobSettings) -> Result<Work, JobError> {
        let order: EvolveOrder = serde_json::from_value(order.clone()).unwrap();
        let earlier = |name: &str| (name == "job_mine").then(|| PathBuf::from("/jobs/job_mine"));
        order.plan(&Rules { settings, places: 32, earlier: &earlier })
    }

    fn task(generator: &Value) -> Value {
        json!({"task": {"prompt": "Write f", "program": "def f():\n    return 1\n", "tests": ["assert f() == 2"],
            "generator": generator}})
    }

    #[test]
    fn nothing_of_the_host_is_used_that_the_settings_do_not_name() {
        let settings = JobSettings::default();
        for (generator, code) in [
            (json!({"kind": "command", "command": ["id"]}), "forbidden"),
            (json!({"kind": "manual", "queue": "/tmp"}), "forbidden"),
            (json!({"kind": "replay", "from": "/var/lib/other"}), "forbidden"),
            (json!({"kind": "replay", "from": "job_another"}), "forbidden"),
            (json!({"kind": "model", "model": "gpt-4o-mini"}), "forbidden"),
            (json!({"kind": "model", "model": "m", "base_url": "http://169.254.169.254/"}), "forbidden"),
            (json!({"kind": "model", "model": "m", "api_key_env": "AWS_SECRET_ACCESS_KEY"}), "forbidden"),
            (json!({"kind": "model", "models": [{"model": "m", "base_url": "http://127.0.0.1/"}]}), "forbidden"),
        ] {
            let error = plan(&task(&generator), &settings).err().unwrap();
            assert_eq!(json!(error.body().code), code, "{generator}: {error}");
        }
        assert!(plan(&task(&json!({"kind": "mutate"})), &settings).is_ok());
        let replay = plan(&task(&json!({"kind": "replay", "from": "job_mine"})), &settings).unwrap();
        assert_eq!(replay.earlier, Some(PathBuf::from("/jobs/job_mine")));
    }

    #[test]
    fn no_name_in_a_task_leads_to_a_file_of_the_host() {
        let settings = JobSettings::default();
        let with = |name: &str, value: &Value| {
            let mut order = json!({"task": {"prompt": "p", "program": "x = 1\n", "generator": {"kind": "mutate"}}});
            order["task"][name] = value.clone();
            order
        };
        for path in ["/etc/hostname", "../../../etc/hostname", "/proc/self/environ"] {
            assert!(plan(&with("evaluator", &json!(path)), &settings).is_err(), "{path}");
            let mut order = with("evaluator", &json!("e.py"));
            order["files"] = json!([{"path": "e.py", "text": "def evaluate(path): return 1"}]);
            assert!(plan(&order, &settings).is_ok());
            order["task"]["evaluator_files"] = json!([path]);
            assert!(plan(&order, &settings).is_err(), "{path}");
            // What is no file that came along is the program itself.
            let mut order = with("tests", &json!(["assert True"]));
            order["task"]["program"] = json!(path);
            order["task"]["generator"] = json!({"kind": "replay", "from": "job_mine"});
            assert_eq!(plan(&order, &settings).unwrap().spec.program.as_deref(), Some(path));
        }
    }

    #[test]
    fn a_model_that_the_settings_name_is_found_where_they_say() {
        let known = JobModel {
            model: Some("real".into()),
            base_url: Some("http://127.0.0.1:9/v1".into()),
            ..JobModel::default()
        };
        let settings = JobSettings {
            models: [("small".to_owned(), known)].into(),
            max_cost_usd: Some(0.5),
            max_tokens: Some(1000),
            ..JobSettings::default()
        };
        let mut order = task(&json!({"kind": "model", "model": "small"}));
        order["task"]["max_cost_usd"] = json!(9.0);
        order["task"]["max_tokens"] = json!(10);
        let spec = plan(&order, &settings).unwrap().spec;
        let [model] = &spec.generator.models[..] else { panic!("{:?}", spec.generator) };
        assert_eq!((model.model.as_str(), model.base_url.as_deref()), ("real", Some("http://127.0.0.1:9/v1")));
        assert_eq!((spec.budget.cost_usd, spec.budget.tokens), (Some(0.5), Some(10)));
        order["task"]["generator"]["model"] = json!("real");
        assert!(plan(&order, &settings).is_err(), "names are those of the settings");
    }

    #[test]
    fn a_task_of_json_is_the_one_of_toml() {
        let order = json!({"task": {"prompt": "p", "entry": "f", "limits": null,
            "cases": [{"args": [1], "expected": null}], "generator": {"kind": "replay", "from": "job_mine"}}});
        let work = plan(&order, &JobSettings::default()).unwrap();
        assert_eq!(work.total(), 5);
        for wrong in [
            json!({"task": {"prompt": "p", "nonsense": 1}}),
            json!({"task": {"prompt": "p"}}),
            json!({"task": 5}),
            json!({}),
            json!({"files": [{"path": "task.toml", "text": "prompt = 1"}]}),
        ] {
            assert_eq!(json!(plan(&wrong, &JobSettings::default()).err().unwrap().body().code), "invalid_request");
        }
        let toml = "prompt = 'p'\nprogram = 'a.py'\ntests = ['assert True']\n[generator]\nkind = 'mutate'";
        let order = json!({"files": [{"path": "task.toml", "text": toml}, {"path": "a.py", "base64": "eCA9IDEK"}]});
        assert_eq!(plan(&order, &JobSettings::default()).unwrap().spec.program.as_deref(), Some("x = 1\n"));
        let much = json!({"task": {"prompt": "p", "program": "x = 1\n", "tests": ["assert x"], "strategy": "islands",
            "parallel": 64, "generator": {"kind": "mutate"}}});
        assert_eq!(json!(plan(&much, &JobSettings::default()).err().unwrap().body().code), "invalid_limit");
    }
}
