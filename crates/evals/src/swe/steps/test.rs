//! Running tests: one log of all that is printed, and beside it what the reporter tells.

use std::collections::BTreeMap;
use std::time::Duration;

use super::site::{Script, Site};
use crate::swe::SweError;
use crate::swe::channel::{Heard, MODULE, REPORTER, Runner};

/// Error output is one with output, as in the official log; what is left of it is the reporter's.
const SCRIPT: &str = r#"exec 3>&2 2>&1
cd "$1"
eval "$BEFORE" </dev/null
unset BEFORE
# Scripts of the official containers name a locale that they made. Where it is not, it would be plain C, and in old
# Pythons ASCII.
case "${LC_ALL:-$LANG}" in
  *.[Uu][Tt][Ff]*) [ "$(locale charmap 2>/dev/null)" = UTF-8 ] || export LC_ALL=C.UTF-8 LANG=C.UTF-8 ;;
esac
command="$TEST"
unset TEST
[ -z "$PLUGIN" ] || export PYTEST_ADDOPTS="-p $PLUGIN${PYTEST_ADDOPTS:+ $PYTEST_ADDOPTS}"
unset PLUGIN
[ -z "$CHANNEL" ] || export SAGGAR_CHANNEL="$CHANNEL"
unset CHANNEL
set -x
eval "$command"
"#;

/// What became of tests.
#[derive(Debug, Clone)]
pub struct Tested {
    /// All that was printed.
    pub log: String,
    /// The exit code of the command.
    pub code: i32,
    /// Whether the time was over.
    pub is_late: bool,
    /// What the reporter told; None where it knows nothing of this runner.
    pub heard: Option<(Runner, Heard)>,
    /// How long it took.
    pub wall_ms: f64,
}

/// Runs a test command in the tree of a site. `packages` is where Python looks for packages, if a reporter is wanted.
pub async fn test(
    site: &Site,
    before: &[String],
    command: &str,
    packages: Option<&str>,
    time: Duration,
) -> Result<Tested, SweError> {
    let runner = packages.and_then(|_| Runner::of(command));
    let key = engine::new_id("key");
    let mut env = BTreeMap::from([("BEFORE".to_owned(), before.join("\n")), ("TEST".to_owned(), command.to_owned())]);
    if let (Some(runner), Some(packages)) = (runner, packages) {
        site.write(&format!("{packages}/{MODULE}.py"), REPORTER.as_bytes()).await?;
        site.write(&format!("{packages}/{MODULE}.pth"), format!("import {MODULE}\n").as_bytes()).await?;
        env.insert("CHANNEL".to_owned(), format!("3:{}:{}", runner.name(), site.tree()));
        if runner == Runner::Pytest {
            env.insert("PLUGIN".to_owned(), MODULE.to_owned());
        }
    }
    let stdin = format!("{key}\n");
    let script = Script { text: SCRIPT, arguments: vec![site.tree().to_owned()], env, stdin, time };
    let said = site.run(script).await?;
    let heard = runner.map(|runner| (runner, Heard::read(&said.err, &key)));
    let (code, is_late) = (said.code(), said.is_late());
    Ok(Tested { log: said.out, code, is_late, heard, wall_ms: said.wall_ms })
}
