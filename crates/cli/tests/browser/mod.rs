//! A headless Chromium spoken to over its DevTools pipe: pages opened, questions asked of them in JavaScript.
//!
//! The pipe (`--remote-debugging-pipe`) is JSON ended by a zero byte, in on descriptor 3 and out on 4; a shell puts
//! the child's standard input and output there. No port is opened, and nothing has to be waited for.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// Checks of a page, in JavaScript.
pub(crate) const CHECKS: &str = include_str!("checks.js");

/// The program, as Debian's package `chromium` has it.
const PROGRAM: &str = "chromium";
/// The browser is killed when a whole test has not ended by then.
const PATIENCE: &str = "300";
/// A4 less the margins that Chromium prints with, CSS pixels.
pub(crate) const PAPER: u32 = 718;

/// A running browser; it ends with this value.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last: u64,
    _home: tempfile::TempDir,
}

pub(crate) struct Page<'a> {
    browser: &'a mut Browser,
    session: String,
    /// What went wrong in it: errors of scripts, messages of the console, requests to others.
    pub(crate) complaints: Vec<String>,
    url: String,
}

impl Browser {
    /// Starts one, or says why the test is skipped.
    pub(crate) fn start() -> Option<Self> {
        let asked = Command::new(PROGRAM).arg("--version").stderr(Stdio::null()).output();
        if !asked.is_ok_and(|said| said.status.success()) {
            return skip::none(format_args!("{PROGRAM} is not installed, or does not start"));
        }
        let home = tempfile::tempdir().expect("a folder");
        let mut child = Command::new("timeout")
            .args(["-k", "5", PATIENCE, "sh", "-c"])
            .arg("exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1")
            .args(["sh", PROGRAM, "--headless", "--remote-debugging-pipe"])
            // The pages are our own, and neither root nor a container has the sandbox.
            .args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-extensions"])
            .args(["--hide-scrollbars", "--force-color-profile=srgb"])
            .arg(format!("--user-data-dir={}", home.path().display()))
            .env("HOME", home.path())
            .env("XDG_CONFIG_HOME", home.path())
            .env("XDG_CACHE_HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let to = child.stdin.take().expect("a pipe");
        let from = BufReader::new(child.stdout.take().expect("a pipe"));
        Some(Browser { child, to, from, last: 0, _home: home })
    }

    /// Opens the page of a file.
    pub(crate) fn open(&mut self, file: &Path) -> Page<'_> {
        let url = format!("file://{}", file.display());
        let target = self.call(None, "Target.createTarget", &json!({ "url": "about:blank" })).0;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call(None, "Target.attachToTarget", &attach).0["sessionId"].clone();
        let session = session.as_str().expect("a session").to_owned();
        let mut page = Page { browser: self, session, complaints: Vec::new(), url: url.clone() };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), &json!({}));
        }
        page.width(1280);
        page.call("Page.navigate", &json!({ "url": url }));
        while page.evaluate("location.href + document.readyState")
            != json!(format!("{url}complete"))
        {}
        page
    }

    /// Calls a method, and gives its result and the events that came before it.
    fn call(&mut self, session: Option<&str>, method: &str, params: &Value) -> (Value, Vec<Value>) {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser listens");
        let mut events = Vec::new();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).expect("the browser speaks");
            assert_eq!(bytes.pop(), Some(0), "the browser ended during {method}");
            let said: Value = serde_json::from_slice(&bytes).expect("JSON");
            if said["id"] == json!(self.last) {
                assert!(said["error"].is_null(), "{method}: {}", said["error"]);
                return (said["result"].clone(), events);
            }
            events.push(said);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It was asked to in the first place; what it says no longer matters.
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let _ = self.child.wait();
    }
}

impl Page<'_> {
    /// Calls a method in this page; complaints among its events are kept.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let (result, events) = self.browser.call(Some(&self.session), method, params);
        for event in events {
            let p = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => self.complaints.push(p.to_string()),
                "Log.entryAdded" | "Runtime.consoleAPICalled" => {
                    self.complaints.push(p.to_string());
                }
                "Network.requestWillBeSent" => {
                    let url = p["request"]["url"].as_str().unwrap_or_default();
                    if url != self.url && !url.starts_with("data:") && !url.starts_with("blob:") {
                        self.complaints.push(format!("asked for {url}"));
                    }
                }
                _ => {}
            }
        }
        result
    }

    /// The value of an expression.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", &params);
        assert!(result["exceptionDetails"].is_null(), "{}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Makes the window so many CSS pixels wide.
    pub(crate) fn width(&mut self, width: u32) {
        let metrics = json!({
            "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600
        });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// The medium (`screen`, `print`) and the system's colours (`light`, `dark`).
    pub(crate) fn media(&mut self, medium: &str, colours: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": colours }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "media": medium, "features": features }));
    }

    /// Presses a key, by its name in the DOM.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "ArrowDown" => 40,
            _ => 13,
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let params =
                json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", &params);
        }
    }

    /// Types a text where the focus is.
    pub(crate) fn insert(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// What is wrong by checks of `checks.js`, at most eight faults of each, which say the `place`.
    pub(crate) fn faults(&mut self, place: &str, checks: &[&str]) -> Vec<String> {
        let mut faults = Vec::new();
        for what in checks {
            let found = self.evaluate(&format!("checks.{what}()"));
            let found = found.as_array().expect("a list").iter().take(8);
            faults.extend(found.map(|fault| format!("{place}, {what}: {fault}")));
        }
        faults
    }

    /// Leaves a picture of this name in a folder, if there is one.
    pub(crate) fn keep_picture(&mut self, folder: Option<&Path>, name: &str) {
        let Some(folder) = folder else { return };
        let bytes = BASE64_STANDARD.decode(self.picture()).expect("base64");
        std::fs::write(folder.join(format!("{name}.png")), bytes).expect("written");
    }

    /// The whole page as PNG, base64.
    fn picture(&mut self) -> String {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let height = self.evaluate("document.documentElement.scrollHeight");
        let width = self.evaluate("innerWidth");
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let mut params = params;
        params["clip"] = clip;
        let shot = self.call("Page.captureScreenshot", &params);
        shot["data"].as_str().unwrap_or_default().to_owned()
    }

    /// The page as a printer gets it: PDF, base64.
    pub(crate) fn printed(&mut self) -> String {
        let params = json!({ "printBackground": true, "preferCSSPageSize": false });
        self.call("Page.printToPDF", &params)["data"].as_str().unwrap_or_default().to_owned()
    }
}
