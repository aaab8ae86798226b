//! What models proposed.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::SweError;
use super::records::records;
use super::row::Instance;

/// A patch for an instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Prediction {
    /// Which instance.
    pub instance_id: String,
    /// Whose it is.
    #[serde(default = "nobody", rename = "model_name_or_path")]
    pub model: String,
    /// The patch, if there is one.
    #[serde(default, rename = "model_patch")]
    pub patch: Option<String>,
}

fn nobody() -> String {
    "None".to_owned()
}

impl Prediction {
    /// Whether there is nothing to run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patch.as_deref().is_none_or(str::is_empty)
    }
}

impl FromIterator<Prediction> for Predictions {
    fn from_iter<I: IntoIterator<Item = Prediction>>(all: I) -> Self {
        let mut predictions = Self::default();
        for prediction in all {
            if predictions.by_id.is_empty() {
                predictions.model.clone_from(&prediction.model);
            }
            predictions.by_id.insert(prediction.instance_id.clone(), prediction);
        }
        predictions
    }
}

/// Predictions by instance, and the model of the first, after which the summary is named.
#[derive(Debug, Clone, Default)]
pub struct Predictions {
    /// By instance; of two for one instance the later counts.
    pub by_id: BTreeMap<String, Prediction>,
    /// The first one's model.
    pub model: String,
}

impl Predictions {
    /// The data set's own patches.
    #[must_use]
    pub fn gold(instances: &[Instance]) -> Self {
        let prediction = |instance: &Instance| Prediction {
            instance_id: instance.id.clone(),
            model: "gold".to_owned(),
            patch: Some(instance.patch.clone()),
        };
        let by_id = instances.iter().map(|instance| (instance.id.clone(), prediction(instance))).collect();
        Self { by_id, model: "gold".to_owned() }
    }

    /// Reads a file: a list or an object by id in a `.json`, or one prediction on each line.
    pub fn read(path: &Path) -> Result<Self, SweError> {
        Ok(records::<Prediction>(path)?.into_iter().map(|(_, prediction)| prediction).collect())
    }

    /// Leaves out those for other instances.
    pub fn keep(&mut self, ids: &[String]) {
        self.by_id.retain(|id, _| ids.contains(id));
    }

    /// Refuses predictions for instances that are not in the data set.
    pub fn check(&self, instances: &[Instance]) -> Result<(), SweError> {
        let known = |id: &&String| !instances.iter().any(|instance| instance.id == **id);
        let unknown: Vec<String> = self.by_id.keys().filter(known).cloned().collect();
        if unknown.is_empty() { Ok(()) } else { Err(SweError::UnknownInstances(unknown)) }
    }
}
