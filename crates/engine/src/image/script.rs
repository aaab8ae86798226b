//! What a Python script says of its own dependencies: PEP 723.

use serde::Deserialize;

use super::ImageError;

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    dependencies: Vec<String>,
}

/// The dependencies of a script; `None` if it has no such block, or an empty list.
pub(super) fn dependencies(code: &[u8]) -> Result<Option<Vec<String>>, ImageError> {
    let Ok(code) = std::str::from_utf8(code) else { return Ok(None) };
    let Some(block) = block(code)? else { return Ok(None) };
    let wrong =
        |error: toml::de::Error| ImageError::Order(format!("the script's metadata is wrong: {}", error.message()));
    let metadata: Metadata = toml::from_str(&block).map_err(wrong)?;
    Ok(Some(metadata.dependencies).filter(|dependencies| !dependencies.is_empty()))
}

/// The text between `# /// script` and the last `# ///` of the comment.
fn block(code: &str) -> Result<Option<String>, ImageError> {
    let mut found = None;
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        if line.trim_end() != "# /// script" {
            continue;
        }
        if found.is_some() {
            return Err(ImageError::Order("the script has two blocks of metadata".to_owned()));
        }
        let comment: Vec<&str> = lines.clone().take_while(|line| *line == "#" || line.starts_with("# ")).collect();
        let Some(end) = comment.iter().rposition(|line| line.trim_end() == "# ///") else { continue };
        let text = |line: &&str| line.strip_prefix("# ").or_else(|| line.strip_prefix('#')).unwrap_or("").to_owned();
        found = Some(comment[..end].iter().map(text).collect::<Vec<_>>().join("\n"));
        lines.nth(end);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_read_as_the_pep_says() {
        let code = "#!/usr/bin/env python3\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"requests<3\",\n#\n#   \"rich\",\n# ]\n# ///\nimport requests\n";
        assert_eq!(dependencies(code.as_bytes()).unwrap(), Some(vec!["requests<3".to_owned(), "rich".to_owned()]));
        for none in
            ["print(1)", "# /// script\n# dependencies = ['x']\nprint(1)", "# /// script\n# dependencies = []\n# ///"]
        {
            assert_eq!(dependencies(none.as_bytes()).unwrap(), None, "{none}");
        }
        for wrong in
            ["# /// script\n# dependencies = 1\n# ///", "# /// script\n# x\n# ///\n\n# /// script\n# y = 1\n# ///"]
        {
            assert!(dependencies(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
