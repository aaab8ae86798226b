//! `saggar image`: what a sandbox is made from.

mod away;
mod build;
mod import;

pub(crate) use build::Said;

use std::path::Path;

use clap::{Args, Subcommand};
use engine::{Caller, Engine, Image as Kept, Settings};

use crate::failure::{Failure, print_json};
use crate::in_runtime;
use crate::remote::{Content, Server, query};
use crate::table::{age, bytes, print};

/// Import, build, list and remove images: what a sandbox's root is made from
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  docker save python:3.12-slim -o python.tar && saggar image import python.tar python\n  saggar image build data --pip numpy,pandas\n  saggar image list\n  saggar run --image python -c 'print(1)'\n  saggar image remove python\n  saggar image import python.tar python --server https://box.example.org"
)]
pub(crate) struct Image {
    /// Ask the server at this address, with a key for `admin` in `SAGGAR_API_KEY`
    #[arg(long, value_name = "URL", global = true)]
    server: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Import(import::Import),
    Build(Box<build::Build>),
    List(List),
    Remove(Remove),
}

/// Show every image
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar image list --json")]
struct List {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Remove images, with layers that nothing else needs
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar image remove python")]
struct Remove {
    /// Name of an image, or at least eight digits of its id (repeatable)
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl Image {
    pub(crate) fn wants_json(&self) -> bool {
        match &self.command {
            Command::Import(import) => import.json,
            Command::Build(build) => build.json,
            Command::List(list) => list.json,
            Command::Remove(remove) => remove.json,
        }
    }

    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let place = match &self.server {
            Some(url) => Place::Elsewhere(Server::at(url)?),
            None => Place::Here(Box::new(Engine::open(Settings::load(config)?)?)),
        };
        match self.command {
            Command::Import(import) => import.execute(&place),
            Command::Build(build) => build.execute(&place),
            Command::List(list) => list.execute(&place),
            Command::Remove(remove) => remove.execute(&place),
        }
    }
}

/// Where images are: in this state folder, or with a server.
enum Place {
    Here(Box<Engine>),
    Elsewhere(Server),
}

impl List {
    fn execute(&self, place: &Place) -> Result<u8, Failure> {
        let images: Vec<Kept> = match place {
            Place::Here(engine) => engine.images()?.list().map_err(engine::RunError::from)?,
            Place::Elsewhere(server) => server.json("GET", "/v1/images", Content::Nothing)?,
        };
        if self.json {
            print_json(&images)?;
        } else if images.is_empty() {
            print(&[], &[], "no images: `saggar image import --help` has an example")?;
        } else {
            let row = |image: &Kept| {
                let layers = image.layers.len().to_string();
                vec![image.name.clone(), short(&image.id), layers, bytes(image.bytes), age(image.made)]
            };
            print(&["name", "id", "layers", "size", "made"], &images.iter().map(row).collect::<Vec<_>>(), "")?;
        }
        Ok(0)
    }
}

impl Remove {
    fn execute(&self, place: &Place) -> Result<u8, Failure> {
        let mut removed: Vec<Kept> = Vec::new();
        for name in &self.names {
            removed.push(match place {
                Place::Here(engine) => in_runtime(async { Ok(engine.remove_image(&caller(), name).await?) })?,
                Place::Elsewhere(server) => {
                    let path = format!("/v1/images{}", query(&[("name", Some(name.clone()))]));
                    server.json("DELETE", &path, Content::Nothing)?
                }
            });
        }
        if self.json {
            print_json(&removed)?;
        } else {
            for image in removed {
                print(&[], &[], &format!("removed {}", image.name))?;
            }
        }
        Ok(0)
    }
}

fn caller() -> Caller {
    Caller { name: "local".to_owned(), ..Caller::default() }
}

/// As much of an id as people type.
fn short(id: &str) -> String {
    id.chars().take(12).collect()
}
