//! `dnsdyno servers`: the servers that the lab can drive, whether they are installed, and the configuration of one.

use std::path::PathBuf;

use lab::detect::detect;
use lab::{Adapter, Catalogue, ConfigureError};
use report::view::{Align, align, quoted};
use serde_json::{Value, json};

use crate::arguments::json::JsonArgs;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct ServersArgs {
    #[command(subcommand)]
    command: Option<ServersCommand>,
    #[command(flatten)]
    json: JsonArgs,
    /// A folder of further server adapters (*.toml)
    #[arg(long, value_name = "DIR", global = true)]
    servers_dir: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum ServersCommand {
    /// Write the configuration of a server from its adapter, and print the command line that starts it
    Configure(ConfigureArgs),
}

#[derive(Debug, clap::Args)]
struct ConfigureArgs {
    /// The server
    #[arg(value_name = "NAME")]
    server: String,
    /// The folder of its configuration and state
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Set a variable of the adapter's templates to a value of TOML or a text; may be repeated
    #[arg(long, value_name = "VARIABLE=VALUE")]
    set: Vec<String>,
}

pub(crate) const EXAMPLES: &str = "Examples:
  What is installed?
    dnsdyno servers

  BIND as a primary that takes updates with the key `lab`, on port 5300; its zone is /tmp/bind/zone
    dnsdyno servers configure bind9 --dir /tmp/bind --set zone=example --set listen.port=5300 \\
        --set replication.primary=true

  docs/servers.md lists the variables.";

pub(crate) fn run(args: &ServersArgs) -> Result<(), Failure> {
    let catalogue = Catalogue::load(args.servers_dir.as_deref()).map_err(Failure::input)?;
    if let Some(ServersCommand::Configure(args)) = &args.command {
        return configure(&catalogue, args);
    }
    let servers: Vec<Value> = catalogue.iter().map(describe).collect();
    args.json.show(|path| record::write(path, &servers), || table(&servers))
}

/// Writes the configuration of a server and prints its command line.
fn configure(catalogue: &Catalogue, args: &ConfigureArgs) -> Result<(), Failure> {
    let own = catalogue.iter().find(|adapter| adapter.name == args.server);
    let adapter = own.map_or_else(|| catalogue.get(&args.server), Ok).map_err(Failure::input)?;
    std::fs::create_dir_all(&args.dir).map_err(Failure::run)?;
    let dir = args.dir.canonicalize().map_err(Failure::run)?;
    let command = lab::configure(adapter, &dir, &args.set).map_err(|error| match error {
        ConfigureError::Assignment { .. } => Failure::input(anyhow::anyhow!("--set {error}")),
        ConfigureError::Server(_) => Failure::run(error),
    })?;
    let words: Vec<String> = command.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    println!("{}", words.join(" "));
    Ok(())
}

/// Returns the facts of a server as JSON.
fn describe(adapter: &Adapter) -> Value {
    let found = detect(adapter);
    let roles: Vec<&str> = adapter.roles.iter().map(|role| role.word()).collect();
    json!({
        "name": adapter.name,
        "title": adapter.title,
        "roles": roles,
        "front": adapter.front,
        "package": adapter.package,
        "build": adapter.build,
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
            true => "in front of another server: NAME+SERVER".to_owned(),
            false => roles.collect::<Vec<_>>().join(", "),
        };
        let installed = match (server["installed"] == true, server["version"].as_str()) {
            (true, Some(version)) => version.to_owned(),
            (true, None) => "installed, version not known".to_owned(),
            (false, _) if server["package"] != "" => {
                format!("not installed: package {}", text(server, "package"))
            }
            (false, _) => format!("not installed: {}", text(server, "build")),
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
        let wanted = "name  server    as                                       installed\n\
                      a     A Server  dns64, resolver                          1.0\n\
                      bb    B         in front of another server: NAME+SERVER  not installed: package b-server\n";
        assert_eq!(table(&servers), wanted);
    }
}
