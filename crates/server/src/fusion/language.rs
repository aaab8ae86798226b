//! `SandboxFusion`'s languages, and what stands for each of them here.

/// How code of a language is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By the recipe of this name.
    Recipe(&'static str),
    /// As tests of Python.
    Pytest,
    /// `SandboxFusion` has it, we have not.
    Missing,
}

/// Every language that `SandboxFusion`'s server or its client knows.
const LANGUAGES: &[(&str, Way)] = &[
    ("python", Way::Recipe("python")),
    ("cpp", Way::Recipe("cpp")),
    ("nodejs", Way::Recipe("node")),
    ("js", Way::Recipe("node")),
    ("typescript", Way::Recipe("typescript")),
    ("ts", Way::Recipe("typescript")),
    ("go", Way::Recipe("go")),
    ("java", Way::Recipe("java")),
    ("php", Way::Recipe("php")),
    ("rust", Way::Recipe("rust")),
    ("bash", Way::Recipe("bash")),
    ("lua", Way::Recipe("lua")),
    ("R", Way::Recipe("r")),
    ("perl", Way::Recipe("perl")),
    ("ruby", Way::Recipe("ruby")),
    // Not SandboxFusion's, but ours.
    ("c", Way::Recipe("c")),
    ("pytest", Way::Pytest),
    ("python2", Way::Missing),
    ("go_test", Way::Missing),
    ("csharp", Way::Missing),
    ("sql", Way::Missing),
    ("cuda", Way::Missing),
    ("D_ut", Way::Missing),
    ("scala", Way::Missing),
    ("julia", Way::Missing),
    ("junit", Way::Missing),
    ("kotlin_script", Way::Missing),
    ("jest", Way::Missing),
    ("verilog", Way::Missing),
    ("python_gpu", Way::Missing),
    ("lean", Way::Missing),
    ("swift", Way::Missing),
    ("racket", Way::Missing),
    ("gtest", Way::Missing),
    ("react", Way::Missing),
];

/// How code of this language is run; nothing, if nobody knows it.
pub(super) fn way(name: &str) -> Option<Way> {
    LANGUAGES.iter().find(|(known, _)| *known == name).map(|(_, way)| *way)
}

/// Those that run here, for messages.
pub(super) fn known() -> String {
    let run = LANGUAGES.iter().filter(|(_, way)| *way != Way::Missing);
    run.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Whether `SandboxFusion` counts the time of its compiler apart.
pub(super) fn is_compiled(name: &str) -> bool {
    matches!(name, "cpp" | "go" | "java")
}
