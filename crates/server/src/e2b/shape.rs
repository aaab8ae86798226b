//! Sandboxes in the words of E2B's control plane.

use axum::http::{HeaderMap, header};
use serde_json::{Value, json};
use types::{Network, Timestamp};

use super::metrics::whole_cpus;
use super::sandbox::{AtEnd, Sandbox, Stand};

/// What of E2B's own program in a sandbox this is like: clients use what it has had since.
const ENVD_VERSION: &str = "0.6.7";
/// Of no meaning any more, but looked for.
const CLIENT: &str = "saggar";

/// Where ports of sandboxes are found: names below `localhost`, at the port that the client knows already.
pub(super) fn domain(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    match host.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(format!("localhost:{port}")),
        _ => None,
    }
}

/// What creating and connecting tell.
pub(super) fn brief(sandbox: &Sandbox, domain: Option<&str>) -> Value {
    json!({
        "templateID": sandbox.wanted.template,
        "alias": sandbox.wanted.template,
        "sandboxID": sandbox.id,
        "clientID": CLIENT,
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": sandbox.wanted.secure.then_some(&sandbox.token),
        "trafficAccessToken": sandbox.traffic_token,
        "domain": domain,
    })
}

/// All that there is to know.
pub(super) fn whole(sandbox: &Sandbox, domain: Option<&str>) -> Value {
    let (stand, ends) = {
        let state = sandbox.state();
        (state.stand.clone(), Timestamp::from(state.ends))
    };
    let mut told = brief(sandbox, domain);
    told["metadata"] = json!(sandbox.wanted.metadata);
    told["startedAt"] = json!(sandbox.created);
    told["endAt"] = json!(ends);
    told["state"] = json!(if sandbox.is_paused() { "paused" } else { "running" });
    let on_timeout = if sandbox.wanted.at_end == AtEnd::Kill { "kill" } else { "pause" };
    told["lifecycle"] = json!({ "autoResume": sandbox.wanted.auto_resume, "onTimeout": on_timeout });
    let info = match &stand {
        Stand::Running(session) | Stand::Frozen(session) => Some(session.info()),
        Stand::Stored(_) => None,
    };
    let limits = info.as_ref().map(|info| info.limits.clone()).unwrap_or_default();
    told["cpuCount"] = json!(whole_cpus(limits.cpus.unwrap_or(1.0)));
    told["memoryMB"] = json!(megabytes(limits.memory_mb));
    told["diskSizeMB"] = json!(megabytes(limits.disk_mb));
    told["allowInternetAccess"] = json!(info.is_some_and(|info| info.network == Network::Open));
    told
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limits are positive and below 2^53")]
fn megabytes(value: Option<f64>) -> u64 {
    value.unwrap_or_default() as u64
}
