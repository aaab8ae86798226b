//! Bringing what is installed of a project up to date without installing it again.

use std::time::Duration;

use super::site::{Script, Site};
use crate::swe::SweError;

/// Nothing is written unless everything can be: a module that the installation of this tree put among the packages, that
/// lies there as it was at the commit and is still a file, is copied there. 1 where that does not hold of one of them.
const SCRIPT: &str = r#"exec 2>&1
cd "$1" || exit 1
tree="$1" packages="$2"; shift 2
# What the patch is said to change is all that has changed.
[ "$(git diff --name-only HEAD | sort)" = "$(printf '%s\n' "$@" | sort)" ] || exit 1
[ -z "$(git ls-files --others --exclude-standard)" ] || exit 1
# Files of the other packages are not the project's, however much they are like one of the tree.
origin="$(grep -lsF "\"file://$tree\"" "$packages"/*.dist-info/direct_url.json)"
record="${origin%direct_url.json}RECORD"
[ -n "$origin" ] && [ -f "$record" ] || exit 1
is_installed() { cut -d, -f1 "$record" | grep -qFx -e "$1"; }
# Files at the commit from which a module may have come.
sources() { git ls-tree -r --name-only HEAD | END="/$1" awk 'substr("/" $0, length($0) + 2 - length(ENVIRON["END"])) == ENVIRON["END"]'; }
copies=()
for path in "$@"; do
  [ -f "$path" ] && [ ! -L "$path" ] || exit 1
  rest="$path"
  is_installed "$rest" || case "$path" in src/*|lib/*) rest="${path#*/}" ;; esac
  is_installed "$rest" && [ "$(sources "$rest")" = "$path" ] || exit 1
  [ ! -L "$packages/$rest" ] && git cat-file blob "HEAD:$path" | cmp -s - "$packages/$rest" || exit 1
  copies+=("$path" "$packages/$rest")
done
set -x
for ((at = 0; at < ${#copies[@]}; at += 2)); do
  cp -- "${copies[at]}" "${copies[at + 1]}" || exit 1
done
set +x
# What was compiled is told from what is there by size and second only.
for ((at = 1; at < ${#copies[@]}; at += 2)); do
  module="${copies[at]}"; name="${module##*/}"
  rm -f -- "${module%/*}/__pycache__/${name%.py}".*.pyc
done
"#;

/// Whether commands do no more than copy modules of the tree to where packages are.
#[must_use]
pub fn only_copies(install: &[String]) -> bool {
    let is_known = |line: &String| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let words = words.strip_prefix(&["python", "-m"]).unwrap_or(&words);
        words.strip_prefix(&["pip", "install"]).is_some_and(|rest| rest == ["."])
    };
    !install.is_empty() && install.iter().all(is_known)
}

/// Whether a file is a module that says nothing of how the project is installed, nor of its version.
#[must_use]
pub fn is_module(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_python = name.strip_suffix(".py").is_some();
    path.contains('/') && is_python && !name.starts_with("__") && !name.contains("version")
}

/// Copies changed modules to where they are installed; what was said, or None where that is not enough.
pub async fn renew(
    site: &Site,
    packages: &str,
    modules: &[String],
    time: Duration,
) -> Result<Option<String>, SweError> {
    let mut arguments = vec![site.tree().to_owned(), packages.to_owned()];
    arguments.extend(modules.iter().cloned());
    let said = site.run(Script { text: SCRIPT, arguments, time, ..Script::default() }).await?;
    Ok(said.is_ok().then_some(said.out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_installation_is_known_to_copy() {
        let only = |lines: &[&str]| only_copies(&lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>());
        assert!(only(&["python -m pip install ."]) && only(&["pip install ."]));
        for other in [&[][..], &["pip install -e ."], &["pip install .", "make"], &["pip install . && x"]] {
            assert!(!only(other), "{other:?}");
        }
    }

    #[test]
    fn what_an_installation_reads_is_no_mere_module() {
        assert!(is_module("requests/models.py") && is_module("src/a/b.py"));
        for other in ["setup.py", "a/__init__.py", "a/__version__.py", "a/_version.py", "a/data.txt", "a/b.pyx"] {
            assert!(!is_module(other), "{other}");
        }
    }
}
