//! What is asked of an E2B-compatible server: a sandbox, files in it, a program in it and that program's input.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::http::request::Builder;
use hyper::{Method, Request, Response};
use serde::Deserialize;
use serde_json::json;

use super::error::E2bError;
use super::http::{Answer, Line};
use super::settings::Known;
use crate::llm::{ApiKey, Said, presentable};

/// The one user whose programs these are; every template has him.
const USER: &str = "user";

/// Where files and processes of a sandbox are asked for.
const ENVD: &str = "49983";

/// A sandbox that was made. Only its token opens it; the key is not sent there.
#[derive(Clone, Deserialize)]
pub(super) struct Made {
    #[serde(rename = "sandboxID")]
    pub(super) id: String,
    #[serde(rename = "envdAccessToken")]
    token: Option<String>,
}

/// A file to be placed.
pub(super) struct Upload {
    pub(super) path: String,
    pub(super) content: Vec<u8>,
}

impl Known {
    fn control(&self, method: Method, path: &str) -> Builder {
        let builder = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        match self.key.plain_header() {
            Some(key) => builder.header("x-api-key", key),
            None => builder,
        }
    }

    async fn ask(&self, step: &'static str, request: Builder, body: Vec<u8>) -> Result<Answer, E2bError> {
        Line::new(self.api.clone()).ask(step, request, body).await
    }

    /// Makes a sandbox that ends by itself after `seconds`, unless they are renewed.
    pub(super) async fn make(&self, template: &str, seconds: u64, internet: bool) -> Result<Made, E2bError> {
        const STEP: &str = "make a sandbox";
        let body = json!({
            "templateID": template, "timeout": seconds, "secure": true, "allow_internet_access": internet,
            "autoPause": false, "metadata": { "made-by": "saggar" },
        });
        let body = body.to_string().into_bytes();
        let mut answer = self.ask(STEP, self.control(Method::POST, "/v2/sandboxes"), body.clone()).await?;
        // Servers that speak what older clients do have it elsewhere.
        if matches!(answer.status, 404 | 405) && !tells_of_template(&answer) {
            answer = self.ask(STEP, self.control(Method::POST, "/sandboxes"), body).await?;
        }
        match answer.status {
            200 | 201 => {
                let made: Made = serde_json::from_slice(&answer.body).map_err(|_| E2bError::Garbled { step: STEP })?;
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
                // It becomes part of paths and headers.
                let fits = (1..=128).contains(&made.id.len()) && made.id.chars().all(plain);
                if fits { Ok(made) } else { Err(E2bError::Garbled { step: STEP }) }
            }
            404 => Err(E2bError::NoTemplate(template.to_owned())),
            _ => Err(refused(STEP, &answer, &self.key)),
        }
    }

    /// Lets a sandbox live for `seconds` from now.
    pub(super) async fn renew(&self, id: &str, seconds: u64) -> Result<(), E2bError> {
        let request = self.control(Method::POST, &format!("/sandboxes/{id}/timeout"));
        let body = json!({ "timeout": seconds }).to_string().into_bytes();
        let answer = self.ask("renew a sandbox", request, body).await?;
        if answer.status < 300 { Ok(()) } else { Err(refused("renew a sandbox", &answer, &self.key)) }
    }

    /// Ends a sandbox; one that is gone already is as good.
    pub(super) async fn end(&self, id: &str) -> Result<(), E2bError> {
        let request = self.control(Method::DELETE, &format!("/sandboxes/{id}"));
        let answer = self.ask("end a sandbox", request, Vec::new()).await?;
        if answer.status < 300 || answer.status == 404 {
            Ok(())
        } else {
            Err(refused("end a sandbox", &answer, &self.key))
        }
    }

    fn inside(made: &Made, path: &str, kind: &str) -> Builder {
        let user = format!("Basic {}", STANDARD.encode(format!("{USER}:")));
        let builder = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(CONTENT_TYPE, kind)
            .header(AUTHORIZATION, user)
            .header("connect-protocol-version", "1")
            .header("e2b-sandbox-id", &made.id)
            .header("e2b-sandbox-port", ENVD);
        match &made.token {
            Some(token) => builder.header("x-access-token", token),
            None => builder,
        }
    }

    /// Places files, in one request.
    pub(super) async fn upload(&self, line: &mut Line, made: &Made, files: &[Upload]) -> Result<(), E2bError> {
        const STEP: &str = "place our program";
        // No file of ours has it in it: it is made up here.
        let boundary = crate::id::random_hex();
        let mut body = Vec::new();
        for Upload { path, content } in files {
            let head = format!(
                "--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{path}\"\r\n\
                 content-type: application/octet-stream\r\n\r\n"
            );
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        let kind = format!("multipart/form-data; boundary={boundary}");
        let answer = line.ask(STEP, Self::inside(made, &format!("/files?username={USER}"), &kind), body).await?;
        if answer.status == 200 { Ok(()) } else { Err(refused(STEP, &answer, &self.key)) }
    }

    /// Starts a shell with a script; what it says comes as a stream of frames.
    pub(super) async fn start(&self, made: &Made, script: &str) -> Result<(Response<Incoming>, Line), E2bError> {
        const STEP: &str = "start our program";
        let message = json!({
            "process": { "cmd": "/bin/bash", "args": ["-l", "-c", script], "envs": {}, "cwd": "/" }, "stdin": true,
        });
        let body = types::connect::frame(0, message.to_string().as_bytes());
        let request = Self::inside(made, "/process.Process/Start", "application/connect+json")
            // It is our program for as long as the sandbox lives.
            .header("connect-timeout-ms", "86400000");
        let (answer, line) = Line::new(self.sandbox.clone()).stream(STEP, request, body).await?;
        match answer.status().as_u16() {
            200 => Ok((answer, line)),
            status => Err(E2bError::Refused { step: STEP, status, said: Said::default() }),
        }
    }

    /// Sends input to a program.
    pub(super) async fn input(&self, line: &mut Line, made: &Made, pid: u32, bytes: &[u8]) -> Result<(), E2bError> {
        const STEP: &str = "pass input on";
        let message = json!({ "process": { "pid": pid }, "input": { "stdin": STANDARD.encode(bytes) } });
        let request = Self::inside(made, "/process.Process/SendInput", "application/json");
        let answer = line.ask(STEP, request, message.to_string().into_bytes()).await?;
        if answer.status == 200 { Ok(()) } else { Err(refused(STEP, &answer, &self.key)) }
    }
}

#[derive(Deserialize, Default)]
struct Told {
    message: Option<String>,
}

fn told(answer: &Answer) -> String {
    serde_json::from_slice::<Told>(&answer.body).ok().and_then(|told| told.message).unwrap_or_default()
}

fn tells_of_template(answer: &Answer) -> bool {
    told(answer).to_ascii_lowercase().contains("template")
}

fn refused(step: &'static str, answer: &Answer, key: &ApiKey) -> E2bError {
    E2bError::Refused { step, status: answer.status, said: presentable(&told(answer), Some(key)) }
}
