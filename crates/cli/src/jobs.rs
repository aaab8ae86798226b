//! Jobs of a server that was named: asked for, followed to their end, taken back at a signal.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use evals::jobs::Order;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;

use crate::away::refused;
use crate::events::Events;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::remote::{Content, Server, broken};

/// How long a server may be away before it counts as gone: jobs go on when it is back.
const PATIENCE: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_secs(1);

/// How a job ended.
pub(crate) enum End {
    Result(Value),
    Cancelled,
}

/// Has a job done, and tells `each` of its steps: their names, and what happened.
pub(crate) fn carry_out(
    server: &Server,
    order: &Order,
    interrupt: &Interrupt,
    mut each: impl FnMut(&str, &Value),
) -> Result<End, Failure> {
    let json = serde_json::to_vec(order).map_err(|error| broken(error.into()))?;
    let job: Value = server.json("POST", "/v1/jobs", Content::Json(json))?;
    let id = job["id"].as_str().unwrap_or_default().to_owned();
    cancel_on(interrupt, server.clone(), id.clone());
    let mut last = 0;
    let mut heard = Instant::now();
    loop {
        match follow(server, &id, &mut last, &mut each) {
            Ok(Some(end)) => return end,
            // It said something before it went away.
            Ok(None) => heard = Instant::now(),
            Err(failure) if heard.elapsed() > PATIENCE => return Err(failure),
            Err(_) => {}
        }
        std::thread::sleep(PAUSE);
    }
}

/// Reads events until the end, or until the server goes away after some of them.
fn follow(
    server: &Server,
    id: &str,
    last: &mut u64,
    each: &mut impl FnMut(&str, &Value),
) -> Result<Option<Result<End, Failure>>, Failure> {
    let headers = format!("accept: text/event-stream\r\nlast-event-id: {last}\r\n");
    let answer = match server.ask_for("GET", &format!("/v1/jobs/{id}"), &headers, Content::Nothing) {
        Err(failure) if failure.is_gone() => return Err(failure),
        // A job that is not there any more will not come back.
        Err(failure) => return Ok(Some(Err(failure))),
        Ok(answer) => answer,
    };
    let told = Events::new(answer.body).each(|event| {
        *last = event.number.unwrap_or(*last);
        let Ok(data) = serde_json::from_str::<Value>(event.data) else { return Some(None) };
        match event.name {
            "result" => Some(Some(Ok(End::Result(data)))),
            "cancelled" => Some(Some(Ok(End::Cancelled))),
            "error" => Some(Some(Err(refused(event.data)))),
            step => {
                each(step, &data);
                None
            }
        }
    });
    // What breaks off goes on when the server is back.
    Ok(told.ok().flatten().flatten())
}

/// Waits for a signal beside everything else.
fn cancel_on(interrupt: &Interrupt, server: Server, id: String) {
    let Ok(signal) = interrupt.as_fd().try_clone_to_owned() else { return };
    std::thread::spawn(move || {
        if poll(&mut [PollFd::from_borrowed_fd(signal.as_fd(), PollFlags::IN)], None).is_ok() {
            // How it ended is told to whoever follows it.
            drop(server.json::<Value>("DELETE", &format!("/v1/jobs/{id}"), Content::Nothing));
        }
    });
}
