//! The script of a row since version 5, taken apart: what it installs, what it tests.

/// What a script does, beside what the harness does itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EvalScript {
    /// Commands before everything else, such as variables.
    pub before: Vec<String>,
    /// Commands that install the project.
    pub install: Vec<String>,
    /// The test command.
    pub test: String,
}

/// What the harness does itself, or what only its containers have.
const OURS: &[&str] = &[
    "#!",
    "set ",
    "source /opt/miniconda3",
    "conda activate",
    "cd /testbed",
    "git config",
    "git status",
    "git show",
    "git -c ",
    "git checkout ",
    "git diff",
];

impl EvalScript {
    /// Takes a script apart.
    #[must_use]
    pub fn read(script: &str) -> Self {
        let mut read = Self::default();
        let (head, rest) = script.split_once(": '>>>>> Start Test Output'").unwrap_or((script, ""));
        // The test patch lies between the two.
        let head = head.split("\ngit apply -v - <<").next().unwrap_or_default();
        let mut seen = false;
        for line in head.lines().map(str::trim).filter(|line| !line.is_empty()) {
            seen |= line.starts_with("git -c ") || line.starts_with("git show");
            if OURS.iter().any(|ours| line.starts_with(ours)) {
                continue;
            }
            if seen { &mut read.install } else { &mut read.before }.push(line.replace("/testbed", super::steps::TREE));
        }
        let test = rest.split(": '>>>>> End Test Output'").next().unwrap_or_default();
        let lines =
            test.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("SWEBENCH_TEST_EXIT_CODE"));
        read.test = lines.collect::<Vec<_>>().join("\n").replace("/testbed", super::steps::TREE);
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_taken_apart() {
        let script = "#!/bin/bash\nset -uxo pipefail\nsource /opt/miniconda3/bin/activate\nconda activate testbed\ncd /testbed\nexport LANG=en_US.UTF-8\ngit config --global --add safe.directory /testbed\ncd /testbed\ngit status\ngit show\ngit -c core.fileMode=false diff abc\nsource /opt/miniconda3/bin/activate\nconda activate testbed\npython -m pip install -e .[test]\ngit checkout abc tests/a.py\ngit apply -v - <<'EOF_114329324912'\ndiff --git a/tests/a.py b/tests/a.py\n+: 'x'\nEOF_114329324912\n: '>>>>> Start Test Output'\npytest -rA tests/a.py\n: '>>>>> End Test Output'\ngit checkout abc tests/a.py\n";
        let wanted = EvalScript {
            before: vec!["export LANG=en_US.UTF-8".to_owned()],
            install: vec!["python -m pip install -e .[test]".to_owned()],
            test: "pytest -rA tests/a.py".to_owned(),
        };
        assert_eq!(EvalScript::read(script), wanted);
        assert_eq!(EvalScript::read(""), EvalScript::default());
    }
}
