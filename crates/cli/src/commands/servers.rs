//! `dnsdyno servers`: the servers that the lab can drive, and whether they are installed.

use std::io::Write;
use std::path::PathBuf;

use lab::adapter::role_word;
use lab::detect::detect;
use lab::{Adapter, Catalogue};
use report::view::{Align, align};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Arguments of `dnsdyno servers`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServersArgs {
    /// Print them as JSON
    #[arg(long)]
    json: bool,
    /// A folder of further server adapters (*.toml)
    #[arg(long, value_name = "DIR")]
    servers_dir: Option<PathBuf>,
}

pub(crate) fn run(args: &ServersArgs) -> Result<(), Failure> {
    let catalogue = Catalogue::load(args.servers_dir.as_deref()).map_err(Failure::input)?;
    let servers: Vec<Value> = catalogue.iter().map(describe).collect();
    let mut out = std::io::stdout().lock();
    let written = if args.json {
        serde_json::to_string_pretty(&servers)
            .map_err(std::io::Error::from)
            .and_then(|text| writeln!(out, "{text}"))
    } else {
        write!(out, "{}", table(&servers))
    };
    written.map_err(Failure::run)
}

/// Returns the facts of a server as JSON.
fn describe(adapter: &Adapter) -> Value {
    let found = detect(adapter);
    let roles: Vec<&str> = adapter.roles.iter().map(|role| role_word(*role)).collect();
    json!({
        "name": adapter.name,
        "title": adapter.title,
        "roles": roles,
        "front": adapter.front,
        "package": adapter.package,
        "installed": found.program.is_some(),
        "program": found.program,
        "version": found.version,
    })
}

/// Returns a table with a line for each server.
fn table(servers: &[Value]) -> String {
    let text = |server: &Value, key: &str| server[key].as_str().unwrap_or_default().to_owned();
    let rows = servers.iter().map(|server| {
        let roles = server["roles"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let roles = match server["front"] == true {
            true => "before any other: NAME+SERVER".to_owned(),
            false => roles.collect::<Vec<_>>().join(", "),
        };
        let installed = match (server["installed"] == true, server["version"].as_str()) {
            (true, Some(version)) => version.to_owned(),
            (true, None) => "installed, version not known".to_owned(),
            (false, _) => format!("not installed: package {}", text(server, "package")),
        };
        [text(server, "name"), text(server, "title"), roles, installed]
    });
    let head = ["name", "server", "as", "installed"].map(str::to_owned);
    let rows: Vec<[String; 4]> = std::iter::once(head).chain(rows).collect();
    align(&rows, &[Align::Left])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_one_names_its_package() {
        let servers = [
            json!({"name": "a", "title": "A Server", "roles": ["dns64", "resolver"], "front": false,
                   "package": "a-server", "installed": true, "version": "1.0"}),
            json!({"name": "bb", "title": "B", "roles": [], "front": true, "package": "b-server",
                   "installed": false, "version": null}),
        ];
        let wanted = "name  server    as                             installed\n\
                      a     A Server  dns64, resolver                1.0\n\
                      bb    B         before any other: NAME+SERVER  not installed: package b-server\n";
        assert_eq!(table(&servers), wanted);
    }
}
