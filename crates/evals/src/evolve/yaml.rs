//! The part of YAML that settings of evolutions are written in: maps, lists, plain and quoted texts, blocks of text.
//!
//! Anchors, tags, several documents and keys that are no texts are refused, never guessed at.

use serde_json::{Map, Value};

/// How deep lists in brackets may be.
const MOST_DEPTH: usize = 32;

/// Reads a document.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { lines: text.lines().enumerate().collect(), at: 0 };
    let value = reader.block(0, 0)?;
    match reader.peek() {
        None => Ok(value),
        Some((number, ..)) => Err(format!("line {number} is indented in a way that fits nothing before it")),
    }
}

struct Reader<'a> {
    lines: Vec<(usize, &'a str)>,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next line that says something: its number, indentation and text, without a comment.
    fn peek(&mut self) -> Option<(usize, usize, &'a str)> {
        while let Some((number, line)) = self.lines.get(self.at) {
            let text = without_comment(line);
            if !text.trim().is_empty() && text.trim() != "---" {
                let indent = text.len() - text.trim_start().len();
                return Some((number + 1, indent, text.trim()));
            }
            self.at += 1;
        }
        None
    }

    /// A map or a list whose lines are indented by `least` at least.
    fn block(&mut self, least: usize, depth: usize) -> Result<Value, String> {
        if depth > MOST_DEPTH {
            return Err("it is nested too deeply".to_owned());
        }
        let Some((_, indent, text)) = self.peek() else { return Ok(Value::Null) };
        if indent < least {
            return Ok(Value::Null);
        }
        if text == "-" || text.starts_with("- ") { self.list(indent, depth) } else { self.map(indent, depth) }
    }

    fn list(&mut self, indent: usize, depth: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        while let Some((number, here, text)) = self.peek() {
            if here != indent || !(text == "-" || text.starts_with("- ")) {
                break;
            }
            let rest = text[1..].trim_start();
            if rest.is_empty() {
                self.at += 1;
                items.push(self.block(indent + 1, depth + 1)?);
            } else if key_of(rest).is_some() {
                // A map that begins on the line of its dash: the dash is a blank to it.
                let line = self.lines[self.at].1;
                let column = line.len() - line.trim_start().len() + (text.len() - rest.len());
                items.push(self.map_at(column, indent, depth + 1)?);
            } else {
                self.at += 1;
                items.push(scalar(rest, depth).map_err(|why| format!("line {number}: {why}"))?);
            }
        }
        Ok(Value::Array(items))
    }

    fn map(&mut self, indent: usize, depth: usize) -> Result<Value, String> {
        self.map_at(indent, indent, depth)
    }

    /// A map at a column; its first line may be indented less and start with a dash.
    fn map_at(&mut self, column: usize, first: usize, depth: usize) -> Result<Value, String> {
        let mut map = Map::new();
        let mut expected = first;
        while let Some((number, here, text)) = self.peek() {
            if here != expected {
                break;
            }
            let text = if expected == column { text } else { text[1..].trim_start() };
            expected = column;
            if text.starts_with("- ") {
                break;
            }
            let wrong = |why: &str| format!("line {number}: {why}");
            let (key, rest) = key_of(text).ok_or_else(|| wrong("a key and a colon are expected"))?;
            self.at += 1;
            let value = match rest {
                "" => match self.peek() {
                    // A list may stand as far left as its key.
                    Some((_, indent, text)) if indent == column && text.starts_with("- ") => {
                        self.list(column, depth + 1)?
                    }
                    _ => self.block(column + 1, depth + 1)?,
                },
                "|" | "|-" | "|+" => Value::String(self.text(column, "\n", rest)),
                ">" | ">-" | ">+" => Value::String(self.text(column, " ", rest)),
                rest => scalar(rest, depth).map_err(|why| wrong(&why))?,
            };
            if map.insert(key, value).is_some() {
                return Err(wrong("this key is there twice"));
            }
        }
        Ok(Value::Object(map))
    }

    /// A block of text below a key.
    fn text(&mut self, column: usize, joint: &str, kind: &str) -> String {
        let mut lines: Vec<&str> = Vec::new();
        let mut indent = None;
        while let Some((_, line)) = self.lines.get(self.at) {
            let own = line.len() - line.trim_start().len();
            if !line.trim().is_empty() && own <= column {
                break;
            }
            if !line.trim().is_empty() {
                indent.get_or_insert(own);
            }
            lines.push(line.get(indent.unwrap_or(own).min(own)..).unwrap_or_default());
            self.at += 1;
        }
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        let mut text = lines.join(joint);
        if !kind.ends_with('-') {
            text.push('\n');
        }
        text
    }
}

/// A line up to its comment.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => return &line[..at],
            (None, '"' | '\'') if !before.is_alphanumeric() => quote = Some(c),
            (Some(open), _) if c == open && before != '\\' => quote = None,
            _ => {}
        }
        before = c;
    }
    line
}

/// A key and what follows its colon.
fn key_of(text: &str) -> Option<(String, &str)> {
    let (key, rest) = match text.chars().next()? {
        quote @ ('"' | '\'') => {
            let (key, rest) = text[1..].split_once(quote)?;
            (key, rest.trim_start().strip_prefix(':')?)
        }
        '[' | '{' | '&' | '*' | '!' => return None,
        _ => text.split_once(':')?,
    };
    let is_end = rest.is_empty() || rest.starts_with(' ');
    is_end.then(|| (key.trim().to_owned(), rest.trim()))
}

fn scalar(text: &str, depth: usize) -> Result<Value, String> {
    if depth > MOST_DEPTH {
        return Err("it is nested too deeply".to_owned());
    }
    match text.chars().next() {
        Some('[') => {
            let inner =
                text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or("a list without an end")?;
            parts(inner).into_iter().map(|part| scalar(part.trim(), depth + 1)).collect()
        }
        Some('{') => {
            let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or("a map without an end")?;
            let mut map = Map::new();
            for part in parts(inner) {
                let (key, value) = key_of(part.trim()).ok_or("a key and a colon are expected")?;
                map.insert(key, scalar(value, depth + 1)?);
            }
            Ok(Value::Object(map))
        }
        Some('"') => {
            let end = text.rfind('"').filter(|end| *end > 0).ok_or("a text without an end")?;
            serde_json::from_str(&text[..=end]).map_err(|_| "a text that cannot be read".to_owned())
        }
        Some('\'') => {
            let end = text.rfind('\'').filter(|end| *end > 0).ok_or("a text without an end")?;
            Ok(Value::String(text[1..end].replace("''", "'")))
        }
        Some('&' | '*' | '!') => Err("anchors and tags are not understood here".to_owned()),
        _ => Ok(plain(text)),
    }
}

/// Parts between commas that are in no brackets and no quotes.
fn parts(text: &str) -> Vec<&str> {
    let (mut found, mut from, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if c == open => quote = None,
            (None, ',') if depth == 0 => {
                found.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[from..]);
    found.retain(|part| !part.trim().is_empty());
    found
}

fn plain(text: &str) -> Value {
    match text {
        "null" | "~" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    if let Ok(int) = text.parse::<i64>() {
        return int.into();
    }
    let looks_like_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    match text.parse::<f64>() {
        Ok(float) if looks_like_number && float.is_finite() => float.into(),
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_read_as_they_are_meant() {
        let text = "# a comment\nmax_iterations: 100  # more\nllm:\n  primary_model: \"a/b#c\"\n  api_base: https://h/v1\n  temperature: 0.7\n  models:\n    - name: x\n      weight: 0.8\n    - name: 'it''s'\n      weight: 2\nprompt:\n  system_message: |\n    Two lines:\n      - with # signs\n\n    and a gap.\n  on: true\nempty:\nthresholds: [0.5, 0.75]\nnames:\n- a\n- b\nnested: {a: 1, b: [x, \"y, z\"]}\n";
        let want = json!({
            "max_iterations": 100,
            "llm": {"primary_model": "a/b#c", "api_base": "https://h/v1", "temperature": 0.7,
                    "models": [{"name": "x", "weight": 0.8}, {"name": "it's", "weight": 2}]},
            "prompt": {"system_message": "Two lines:\n  - with # signs\n\nand a gap.\n", "on": true},
            "empty": null, "thresholds": [0.5, 0.75], "names": ["a", "b"], "nested": {"a": 1, "b": ["x", "y, z"]},
        });
        assert_eq!(parse(text), Ok(want));
        assert_eq!(parse(""), Ok(Value::Null));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in ["a: &x 1\nb: *x\n", "a: 1\n   b: 2\n", "just words\n", "a: [1, 2\n", "a: 1\na: 2\n", "a: !!str 1\n"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let deep = format!("a: {}", "[".repeat(1000) + &"]".repeat(1000));
        assert!(parse(&deep).is_err());
    }
}
