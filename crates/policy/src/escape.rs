//! Modules that a program lets out of its sight: given to a function, put into an object, returned. Where they come out
//! again is not followed; instead everything of an unknown object that only such a module has is told as the module's.

use crate::sink::Sink;
use crate::value::{Space, Value, Values, below};

/// Uses that are kept until the end.
const MOST_USES: usize = 256;
/// Modules that are.
const MOST_MODULES: usize = 16;

/// What went out of sight, and what was used of things that are not known.
#[derive(Default)]
pub(crate) struct Escapes {
    modules: Vec<String>,
    uses: Vec<(String, usize)>,
}

impl Escapes {
    /// These may be anywhere from here on, if they are modules of which there is a list.
    pub(crate) fn out(&mut self, values: &Values, modules: &[&str]) {
        for value in values.iter() {
            let (Value::Path(path) | Value::Space(Space::Of(path))) = value else { continue };
            // Whatever is chosen of one may be any of it.
            let path = path.strip_suffix(".?").unwrap_or(path);
            if modules.contains(&path) && self.modules.len() < MOST_MODULES {
                let known = self.modules.iter().any(|module| module == path);
                self.modules.extend((!known).then(|| path.to_owned()));
            }
        }
    }

    /// Something of this name is used of an object that is not known.
    pub(crate) fn used(&mut self, name: &str, at: usize) {
        if self.uses.len() < MOST_USES {
            self.uses.push((name.to_owned(), at));
        }
    }

    /// Tells what such an object may have been. At the end: a function is often read before it is called.
    pub(crate) fn tell(&self, sink: &mut Sink<'_>) {
        for module in &self.modules {
            for (name, at) in &self.uses {
                if let Some(path) = below(module, name).filter(|path| sink.is_critical(path)) {
                    sink.name(&path, *at);
                }
            }
        }
    }
}
