//! Settings as they came to be, for people and programs to read. No secret is in them: keys of models are named by the
//! variable that holds them.

use serde_json::{Value, json};

use crate::session::written;
use crate::settings::{Allowance, Settings};

impl Settings {
    /// Every value that is in force, by the names of the file.
    #[must_use]
    pub fn shown(&self) -> Value {
        let allowance = |of: &Allowance| json!(of);
        let milliseconds = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        json!({
            "state": self.state,
            "backend": self.backend,
            "require": self.require,
            "accept_missing": self.accept_missing,
            "cgroup": self.cgroup,
            "interpreters": self.interpreters,
            "limits": written(&self.defaults),
            "ceiling": written(&self.ceiling.0),
            "pool": {
                "ready": self.pool.ready, "most": self.pool.most, "idle_ms": milliseconds(self.pool.idle),
                "running": self.pool.running, "preload": self.pool.preload,
            },
            "admission": {
                "waiting": self.admission.waiting, "socket": allowance(&self.admission.socket),
                "first_key": allowance(&self.admission.first_key), "keys": allowance(&self.admission.keys),
            },
            "audit": { "enabled": self.audit.enabled, "keep_source": self.audit.keep_source },
            "policy": { "least": self.policy.least },
            "network": { "open": format!("{:?}", self.network.open).to_lowercase(), "resolver": self.network.resolver },
            "docker": {
                "host": self.docker.host, "runtime": self.docker.runtime, "image": self.docker.image,
                "images": self.docker.images,
            },
            "e2b": {
                "network": self.e2b.network, "build": self.e2b.build, "old_clients": self.e2b.old_clients,
                "cpus": self.e2b.cpus, "ready": self.e2b.ready,
                "backend": {
                    "api_url": self.e2b.backend.api_url, "sandbox_url": self.e2b.backend.sandbox_url,
                    "domain": self.e2b.backend.domain, "template": self.e2b.backend.template,
                    "templates": self.e2b.backend.templates,
                },
            },
            "review": self.review.as_ref().map(|review| json!({
                "model": review.model, "provider": review.provider, "base_url": review.base_url(),
                "api_key_env": review.api_key_env,
            })),
            "jobs": {
                "running": self.jobs.running, "max_cost_usd": self.jobs.max_cost_usd, "max_tokens": self.jobs.max_tokens,
                "repositories": self.jobs.repositories, "wheels": self.jobs.wheels, "index": self.jobs.index,
                "models": self.jobs.models.iter().map(|(name, model)| (name.clone(), json!({
                    "model": model.model, "base_url": model.base_url, "api_key_env": model.api_key_env,
                }))).collect::<serde_json::Map<_, _>>(),
            },
            "server": {
                "listen": self.server.listen, "hosts": self.server.hosts, "behind_proxy": self.server.behind_proxy,
                "tls": self.server.tls.as_ref().map(|tls| json!({"certificate": tls.certificate, "key": tls.key})),
                "drain_ms": milliseconds(self.server.drain), "log": self.server.log.name(),
            },
        })
    }
}
