//! The handler: which tools there are, who calls, and until when.

use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use engine::Engine;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use types::{ErrorBody, ErrorCode};

use super::answer::{Answer, Failed};
use super::table::Tool;
use super::{progress, runs, sessions};
use crate::activity::{Activity, turned};
use crate::identity::Identity;

/// How long a client over HTTP may have no connection at all before what it called is taken back.
const ABSENCE: Duration = Duration::from_secs(10);

/// What a model reads before it calls anything.
const INSTRUCTIONS: &str = "Runs untrusted code in sandboxes of this machine: no network unless asked for and allowed, \
no files but those given, hard limits. `run` is for one program, `session_*` for work that goes on: files and variables \
stay from call to call. A program that fails is a normal answer with its exit code, output and hints; `isError` means \
that nothing could be run.";

/// The tools, as one connection sees them.
#[derive(Clone)]
pub(super) struct Tools {
    pub(super) engine: Arc<Engine>,
    /// Calls under way.
    pub(super) runs: Activity,
    /// Turns true when all that is left is given up.
    pub(super) give_up: watch::Receiver<bool>,
    /// Who asks, where the connection tells; over HTTP each request does.
    pub(super) owner: Option<Identity>,
    /// Places for calls: connections do not bound them, for a client may close one and still be waited for.
    pub(super) places: Arc<Semaphore>,
}

/// Calls at once, on one connection or of one key.
pub(super) const MOST_CALLS: usize = 256;

/// Connections of a client over HTTP; when there are none for long, it is gone.
#[derive(Clone)]
pub(super) struct Presence(pub(super) Activity);

/// One call of a tool.
pub(super) struct Call<'a> {
    pub(super) engine: &'a Arc<Engine>,
    pub(super) who: Identity,
    pub(super) context: &'a RequestContext<RoleServer>,
    /// The last line that the program wrote, for whoever watches.
    pub(super) said: watch::Sender<String>,
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let implementation = Implementation::new("saggar", crate::VERSION).with_title("saggar");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(implementation)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(Tool::ALL.iter().map(Tool::listed).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        Tool::named(name).map(Tool::listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = Tool::named(&request.name) else {
            let name: String = request.name.chars().take(100).collect();
            return Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None));
        };
        let Ok(_place) = self.places.try_acquire() else {
            return Ok(too_many().into_result().into());
        };
        let _underway = self.runs.begin();
        let arguments = request.arguments.unwrap_or_default();
        let called = async {
            let who = self.who(&context)?;
            who.must(tool.scope())?;
            let call = Call { engine: &self.engine, who, context: &context, said: watch::Sender::default() };
            call.carry_out(tool, arguments).await
        };
        let answer = tokio::select! {
            answer = called => answer,
            // What was called is dropped with its future, and everything that it started is killed.
            () = self.taken_back(&context) => Err(cancelled()),
        };
        Ok(answer.map_or_else(Failed::into_result, Answer::into_result).into())
    }
}

impl Tools {
    fn who(&self, context: &RequestContext<RoleServer>) -> Result<Identity, Failed> {
        if let Some(owner) = &self.owner {
            return Ok(owner.clone());
        }
        let parts = context.extensions.get::<Parts>();
        let identity = parts.and_then(|parts| parts.extensions.get::<Identity>());
        Ok(identity.cloned().ok_or_else(crate::identity::unknown)?)
    }

    /// Until the client says so, is gone, or the server ends.
    async fn taken_back(&self, context: &RequestContext<RoleServer>) {
        let mut give_up = self.give_up.clone();
        let parts = context.extensions.get::<Parts>();
        let presence = parts.and_then(|parts| parts.extensions.get::<Presence>()).cloned();
        let absent = async {
            match presence {
                Some(Presence(connections)) => connections.quiet_for(ABSENCE).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = context.ct.cancelled() => {}
            () = turned(&mut give_up) => {}
            () = absent => {}
        }
    }
}

impl Call<'_> {
    async fn carry_out(
        &self,
        tool: &'static Tool,
        arguments: serde_json::Map<String, Value>,
    ) -> Result<Answer, Failed> {
        // On the heap: what a run needs to be remembered is large, and clients call many at once.
        let work = Box::pin(async {
            match tool.name {
                "run" => runs::run(self, arguments).await,
                "exec" => runs::exec(self, arguments).await,
                "check" => runs::check(self, arguments).await,
                "judge" => Box::pin(runs::judge(self, arguments)).await,
                name => sessions::call(self, name, arguments).await,
            }
        });
        progress::along(self.context, self.said.subscribe(), work).await
    }
}

fn too_many() -> Failed {
    let message = format!("{MOST_CALLS} calls are under way, and no more may be");
    Failed(ErrorBody { code: ErrorCode::Busy, message, hint: "call again when one of them has ended".to_owned() })
}

/// Nobody reads it any more, as a rule.
fn cancelled() -> Failed {
    let hint = "call it again".to_owned();
    Failed(ErrorBody { code: ErrorCode::ServerGone, message: "the call was taken back".to_owned(), hint })
}
