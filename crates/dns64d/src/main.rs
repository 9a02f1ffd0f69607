//! `dns64d`: the DNS64 server as a daemon.

mod args;
mod beat;
mod bind;
mod carrier;
mod check;
mod control;
mod daemon;
mod dnstap;
mod event;
mod files;
mod in_kernel;
mod kept;
mod landlock;
mod log;
mod metrics;
mod nat64;
mod observer;
mod privileges;
mod reading;
mod route;
mod saver;
mod upstream_tls;
mod worker;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use dns64::{Config, config::DEFAULTS};
use kernel::KernelError;

use args::{Args, Command};
use control::Ctl;

fn main() -> ExitCode {
    let args = Args::parse();
    if args.print_defaults {
        print!("{DEFAULTS}");
        return ExitCode::SUCCESS;
    }
    if let Some(shell) = args.completions {
        args::print_completions(shell);
        return ExitCode::SUCCESS;
    }
    if let Some(folder) = &args.man {
        return match args::write_man(folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        };
    }
    if let Some(Command::Ctl(ctl)) = &args.command {
        return control(ctl, &args);
    }
    let (text, config) = match read(&args) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("dns64d: {error:#}");
            return ExitCode::from(2);
        }
    };
    let place = || args.config.display().to_string();
    let checked = match args.check {
        true => check::warnings(&config),
        false => check::errors(&config).map(|()| Vec::new()),
    };
    let (warnings, rules) = match checked.and_then(|all| Ok((all, files::rules(&config)?))) {
        Ok(checked) => checked,
        Err(error) => {
            eprintln!("dns64d: {:#}", error.context(place()));
            return ExitCode::from(2);
        }
    };
    if args.check {
        warnings.iter().for_each(|warning| println!("{}: warning: {warning}", place()));
        println!("{}: no errors found", place());
        return ExitCode::SUCCESS;
    }
    let result = daemon::run(&args, &text, config, rules);
    log::flush();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // What [kernel] asks for, this user or this device does not give.
        Err(error) if error.is::<KernelError>() => {
            let _ = failed(&error.context(place()));
            ExitCode::from(2)
        }
        Err(error) => failed(&error),
    }
}

/// Sends a request to a running server.
fn control(ctl: &Ctl, args: &Args) -> ExitCode {
    let socket = match &ctl.socket {
        Some(socket) => socket.clone(),
        None => match read(args) {
            Ok((_, config)) => config.control.socket,
            Err(error) => {
                eprintln!("dns64d: {error:#}");
                return ExitCode::from(2);
            }
        },
    };
    if socket.as_os_str().is_empty() {
        let config = args.config.display();
        eprintln!(
            "dns64d: {config}: control.socket is empty: write a path, and start the server again"
        );
        return ExitCode::from(2);
    }
    match ctl.run(&socket, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Prints an error, if standard error can be written.
fn failed(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "dns64d: {error:#}");
    ExitCode::FAILURE
}

/// Reads the configuration file of the arguments; returns its text too.
fn read(args: &Args) -> anyhow::Result<(String, Config)> {
    let path = &args.config;
    let text = files::config(path).with_context(|| {
        format!(
            "cannot read {} (`dns64d --print-defaults` prints a first configuration file)",
            path.display()
        )
    })?;
    let config = Config::parse(&text).with_context(|| path.display().to_string())?;
    Ok((text, config))
}
