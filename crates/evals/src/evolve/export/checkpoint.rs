//! A checkpoint folder as `OpenEvolve` writes it: its viewer reads ours.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::evolve::error::EvolveError;
use crate::evolve::member::Member;
use crate::evolve::result;
use crate::evolve::store::Store;

/// Writes `metadata.json`, `programs/`, `best_program.*` and `best_program_info.json`.
pub fn checkpoint(store: &Store, folder: &Path) -> Result<(), EvolveError> {
    let members = store.members()?;
    let programs = folder.join("programs");
    let failed = |path: &Path, source| EvolveError::Write { path: path.to_path_buf(), source };
    fs::create_dir_all(&programs).map_err(|source| failed(&programs, source))?;
    let put = |path: &Path, text: &str| fs::write(path, text).map_err(|source| failed(path, source));
    let tried: Vec<&Member> = members.iter().filter(|member| member.evaluation.is_some()).collect();
    for member in &tried {
        let program = program(member, &members, &store.about().language);
        put(&programs.join(format!("{}.json", id(member.iteration()))), &program.to_string())?;
    }
    let best = result::best(&members);
    if let Some(best) = best {
        put(&folder.join(format!("best_program.{}", store.about().suffix)), best.code())?;
        let info = json!({
            "id": id(best.iteration()),
            "generation": generation(best, &members),
            "iteration": best.iteration(),
            "timestamp": 0.0,
            "parent_id": best.proposal.parent.map(id),
            "metrics": metrics(best),
            "language": store.about().language,
        });
        put(&folder.join("best_program_info.json"), &info.to_string())?;
    }
    put(&folder.join("metadata.json"), &metadata(&tried, best).to_string())
}

fn id(iteration: u64) -> String {
    format!("{iteration:08}")
}

/// How many programs are above it.
fn generation(member: &Member, members: &[Member]) -> u64 {
    let mut at = member;
    let mut count = 0;
    while let Some(parent) = at.proposal.parent.and_then(|parent| members.iter().find(|one| one.iteration() == parent))
    {
        // Parents come first; anything else is not ours.
        if parent.iteration() >= at.iteration() {
            break;
        }
        (at, count) = (parent, count + 1);
    }
    count
}

fn metrics(member: &Member) -> Value {
    let Some(told) = &member.evaluation else { return json!({}) };
    let mut metrics = json!(told.metrics);
    metrics["combined_score"] = told.score.into();
    metrics
}

fn program(member: &Member, members: &[Member], language: &str) -> Value {
    json!({
        "id": id(member.iteration()),
        "code": member.code(),
        "language": language,
        "parent_id": member.proposal.parent.map(id),
        "generation": generation(member, members),
        "timestamp": 0.0,
        "iteration_found": member.iteration(),
        "metrics": metrics(member),
        "complexity": member.code().len(),
        "diversity": 0.0,
        "metadata": {"island": member.proposal.island, "changes": member.proposal.by},
        "prompts": {"full_rewrite_user": {"system": "", "user": "", "responses": [member.proposal.answer]}},
    })
}

fn metadata(tried: &[&Member], best: Option<&Member>) -> Value {
    let count = tried.iter().map(|member| member.proposal.island + 1).max().unwrap_or(1);
    let of = |island: usize| {
        tried.iter().filter(|member| member.proposal.island == island).map(|member| id(member.iteration())).collect()
    };
    let islands: Vec<Vec<String>> = (0..count).map(of).collect();
    let best_of = |island: usize| {
        let members = tried.iter().filter(|member| member.proposal.island == island);
        members.max_by(|a, b| a.rank().total_cmp(&b.rank())).map(|member| id(member.iteration()))
    };
    json!({
        "island_feature_maps": vec![json!({}); count],
        "islands": islands,
        "archive": best.map(|best| id(best.iteration())).into_iter().collect::<Vec<_>>(),
        "best_program_id": best.map(|best| id(best.iteration())),
        "island_best_programs": (0..count).map(best_of).collect::<Vec<_>>(),
        "last_iteration": tried.last().map_or(0, |member| member.iteration()),
        "current_island": 0,
        "island_generations": vec![0; count],
        "last_migration_generation": 0,
        "feature_stats": {},
    })
}
