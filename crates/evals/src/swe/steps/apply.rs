//! Putting a patch into a tree, as the official harness does it.

use std::time::Duration;

use super::site::{ASIDE, Script, Site};
use crate::swe::{SweError, diff};

/// The commands that are tried, in this order, each on a clean tree.
const COMMANDS: [&str; 4] = [
    "git apply --verbose",
    "git apply --verbose --3way",
    "git apply --verbose --reject",
    "patch --batch --forward --fuzz=5 -p1 -i",
];

const SCRIPT: &str = r#"exec 2>&1
cd "$1"; patch="$2"; shift 2
clean() { git reset -q --hard HEAD; git clean -f -d -q; }
number=0
for command in "$@"; do
  number=$((number + 1))
  [ "$number" -gt 1 ] && clean
  echo "+ $command"
  if $command "$patch"; then
    # Only this one writes into the index; going through a large tree takes its time.
    [ "$number" -ne 2 ] || git reset -q
    exit "$number"
  fi
done
clean
echo "+ git apply --check --reverse"
if git apply --check --reverse "$patch"; then exit 90; fi
exit 99
"#;

/// What became of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// This command took it.
    By(&'static str),
    /// It was in the tree already.
    Already,
    /// None did; what they said of each hunk.
    No(String),
}

/// Puts a patch into the tree of a site, by one of four commands. The tree is clean where none takes it.
pub async fn apply(site: &Site, patch: &str, time: Duration) -> Result<(Applied, String), SweError> {
    if diff::leaves_the_tree(patch) {
        let why = "the patch names a file outside of the work tree, or one of git's own".to_owned();
        return Ok((Applied::No(why.clone()), why));
    }
    let file = format!("{ASIDE}/patch.diff");
    site.write(&file, patch.as_bytes()).await?;
    let mut arguments = vec![site.tree().to_owned(), file];
    arguments.extend(COMMANDS.map(str::to_owned));
    let said = site.run(Script { text: SCRIPT, arguments, time, ..Script::default() }).await?;
    let command = usize::try_from(said.code()).ok().and_then(|code| COMMANDS.get(code.checked_sub(1)?));
    let applied = match (command, said.code()) {
        (Some(command), _) => Applied::By(command),
        (None, 90) => Applied::Already,
        (None, _) => Applied::No(said.out.clone()),
    };
    Ok((applied, said.out))
}
