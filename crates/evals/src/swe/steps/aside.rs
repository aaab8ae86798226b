//! Installing a patched project again: in another sandbox, of which only the project's own files come back.
//!
//! An installation runs code of the patch wherever a project's `setup.py` imports the project. What such code does to the
//! environment, to the tests or to git stays where it was done.

use std::time::Duration;

use tokio::io::AsyncReadExt as _;

use super::site::{ASIDE, Script, Site};
use crate::swe::SweError;

/// More than any project compiles to.
const MOST: u64 = 1 << 30;
/// A file that is as old as the beginning of the installation.
const MARK: &str = "mark";
/// How the script ends that does not know what is the project's own.
const UNKNOWN: i32 = 3;

/// What the installation made: whatever this says is looked at where nothing of the patch has run.
const PACK: &str = r#"exec 2>&1
find "$2" "$1" -path "$1/.git" -prune -o -type f -cnewer "$3/$4" \( -path "$2/*" -o -name '*.so' \) -print0 |
  tar --null -T - -P -cf "$3/made.tar"
"#;

/// Takes files that the installation of the commit itself made as well, or that are compiled of sources in their folder:
/// none that Python runs when it starts, none of another package, nothing that names plugins. 3 where nobody knows what the
/// project's own are.
const PLACE: &str = r#"exec 2>&1
cd /
python -E -s - "$@" <<'END'
import csv, glob, json, os, shutil, sys, tarfile
tree, packages, made, is_copy = sys.argv[1:5]
own, others = set(), set()
for record in glob.glob(packages + "/*.dist-info/RECORD"):
    try:
        with open(os.path.dirname(record) + "/direct_url.json") as file:
            is_own = json.load(file)["url"] == "file://" + tree
    except (IOError, KeyError, ValueError):
        is_own = False
    with open(record) as file:
        (own if is_own else others).update(row[0] for row in csv.reader(file) if row)
ends = (".pth", ".dist-info", ".egg-info", ".egg-link")
begins = ("__editable__", "__pycache__", "sitecustomize", "usercustomize", "..")
names = set(path.split("/")[0] for path in own)
names = set(name for name in names if not name.endswith(ends) and not name.startswith(begins))
if is_copy and not names:
    sys.exit(3)
own = [path for path in own if path.split("/")[0] in names and path not in others]
def is_compiled(path):
    folder, name = os.path.split(path)
    start = os.path.join(folder, name.split(".")[0])
    sources = [start + end for end in (".pyx", ".pyx.tp", ".c", ".cpp", ".cc")]
    return os.path.isfile(path) or any(map(os.path.isfile, sources)) and not os.path.exists(start + ".py")
copies = []
tar = tarfile.open(made)
for member in tar:
    path = os.path.normpath("/" + member.name.lstrip("/"))
    if not member.isreg() or os.path.realpath(path) != path:
        continue
    if path.startswith(packages + "/"):
        rest = path[len(packages) + 1:]
        if rest.split("/")[0] in names and rest not in others:
            copies.append((member, path))
    elif path.startswith(tree + "/") and path.endswith(".so") and is_compiled(path):
        copies.append((member, path))
if any(path.startswith(packages + "/") for _, path in copies):
    for path in own:
        if os.path.isfile(os.path.join(packages, path)):
            os.remove(os.path.join(packages, path))
for member, path in copies:
    if not os.path.isdir(os.path.dirname(path)):
        os.makedirs(os.path.dirname(path))
    with open(path, "wb") as file:
        shutil.copyfileobj(tar.extractfile(member), file)
print("%d files of the installation taken" % len(copies))
END"#;

/// Whether commands install the project by pip and do nothing else; what came of others is not known.
#[must_use]
pub fn is_by_pip(install: &[String]) -> bool {
    let is_known = |line: &String| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let words = words.strip_prefix(&["python", "-m"]).unwrap_or(&words);
        let Some(rest) = words.strip_prefix(&["pip", "install"]) else { return false };
        let is_own = |word: &&str| {
            word.trim_matches(['"', '\''])
                .strip_prefix('.')
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
        };
        let plain = |word: &&str| !word.contains(['&', ';', '|', '$', '`', '>', '<']);
        rest.iter().all(plain) && rest.iter().filter(|word| !word.starts_with('-')).all(is_own)
    };
    !install.is_empty() && install.iter().all(is_known)
}

/// Installs a patched project in a site aside, and brings what that made to another with the same patch. What was said, or
/// None where it is not known what to bring: nothing has changed there then.
pub async fn install_aside(
    [aside, site]: [&Site; 2],
    install: &str,
    packages: &str,
    is_copy: bool,
    time: Duration,
) -> Result<Option<String>, SweError> {
    aside.write(&format!("{ASIDE}/{MARK}"), b"").await?;
    let words = |more: &[&str]| [site.tree(), packages].iter().chain(more).map(|&word| word.to_owned()).collect();
    let arguments = words(&[]);
    let mut out = aside.run(Script { text: install, arguments, time, ..Script::default() }).await?.out;
    let arguments = words(&[ASIDE, MARK]);
    aside.run(Script { text: PACK, arguments, time, ..Script::default() }).await?;
    let made = format!("{ASIDE}/made.tar");
    let mut content = Vec::new();
    // Whoever sees to it that there is nothing to take has installed nothing.
    let is_there = match aside.read(&made).await {
        Ok(reader) => reader.take(MOST).read_to_end(&mut content).await.is_ok(),
        Err(_) => false,
    };
    if !is_there {
        out.push_str("nothing of the installation could be taken\n");
        return Ok(Some(out));
    }
    site.write(&made, &content).await?;
    let arguments = words(&[&made, if is_copy { "copy" } else { "" }]);
    let said = site.run(Script { text: PLACE, arguments, time, ..Script::default() }).await?;
    if said.code() == UNKNOWN {
        return Ok(None);
    }
    out.push_str(&said.out);
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_pip_does_by_itself_is_known() {
        let by_pip = |line: &str| is_by_pip(&[line.to_owned()]);
        for line in
            ["pip install .", "python -m pip install -e .[test] --verbose", "python -m pip install -v -e \".[dev]\""]
        {
            assert!(by_pip(line), "{line}");
        }
        for line in
            ["make", "python setup.py install", "pip install . && make", "pip install -e . numpy", "pip install -e .;x"]
        {
            assert!(!by_pip(line), "{line}");
        }
        assert!(!is_by_pip(&[]));
    }
}
