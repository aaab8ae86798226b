//! `saggar image --server`: images that another server keeps.

use std::fs::File;
use std::io;
use std::path::Path;

use engine::{Build as Order, Image, Imported, Output, Sources, Stream};
use serde_json::json;

use crate::away::{piece, refused};
use crate::events::Events;
use crate::failure::Failure;
use crate::options::wrong;
use crate::remote::{Content, Server, broken, query};

/// Sends an archive.
pub(super) fn import(server: &Server, source: &Path, name: Option<String>) -> Result<Imported, Failure> {
    let unreadable = |error| Failure::input(source, error);
    let mut file = File::open(source).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() {
        return Err(wrong(
            "only an archive goes to a server: pack a folder with `tar -C DIR -cf image.tar .`".to_owned(),
        ));
    }
    // A server does not know what the file is called here.
    let stem = source.file_name().and_then(|name| Some(name.to_str()?.split('.').next()?.to_owned()));
    let path = format!("/v1/images/import{}", query(&[("name", name), ("default_name", stem)]));
    server.json("POST", &path, Content::File(meta.len(), &mut file))
}

/// Has one built, and passes on what the installers say.
pub(super) fn build(server: &Server, order: &Order, said: &mut dyn Output) -> Result<Image, Failure> {
    if order.sources != Sources::default() {
        let why = "where packages of a server's images come from is said in [build] of its settings";
        return Err(wrong(format!(
            "{why}: leave out --index-url, --npm-registry, --apt-mirror, --proxy and --ca-bundle"
        )));
    }
    let Order { name, from, system, apt, pip, npm, fresh, sources: _ } = order;
    let body =
        json!({"name": name, "from": from, "system": system, "apt": apt, "pip": pip, "npm": npm, "fresh": fresh});
    let json = Content::Json(body.to_string().into_bytes());
    let answer = server.ask_for("POST", "/v1/images/build", "accept: text/event-stream\r\n", json)?;
    let told = Events::new(answer.body).each(|event| match event.name {
        "stdout" | "stderr" => {
            let stream = if event.name == "stdout" { Stream::Out } else { Stream::Err };
            // Who stops listening still wants the image.
            let _ = said.write(stream, &piece(event.data));
            None
        }
        "result" => Some(serde_json::from_str(event.data).map_err(|error| broken(error.into()))),
        "error" => Some(Err(refused(event.data))),
        _ => None,
    });
    told.map_err(broken)?.unwrap_or_else(|| Err(broken(io::ErrorKind::UnexpectedEof.into())))
}
