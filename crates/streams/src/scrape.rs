//! Pages for those who watch a program: Prometheus' text format, over HTTP on an address of its own.
//!
//! [`serve`] answers `GET` with whatever the program says at that moment; connections, their time and the
//! pages' number are bounded. [`Exposition`] writes the format. [`bequeath`] and [`inherit`] carry a listener
//! over `exec`, for a program that opens it before it leaves the network namespace in which it is to be seen.

use std::convert::Infallible;
use std::fmt::Write;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use socket2::SockRef;
use tokio::sync::Semaphore;

/// Connections at once.
const CONNECTIONS: usize = 16;
/// How long a request may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Whether all is well: 200, or 503.
    pub ok: bool,
    /// The text.
    pub text: String,
}

/// Answers until `end`; `page` says what is at a path, `None` when nothing is.
///
/// # Errors
/// When the runtime cannot be made or the listener not be used.
pub fn serve(
    listener: TcpListener,
    page: impl Fn(&str) -> Option<Page> + Send + Sync + 'static,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let page = Arc::new(page);
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut end = std::pin::pin!(end);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut end => return Ok(()),
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let Ok(place) = places.clone().try_acquire_owned() else { continue };
            let page = page.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let response = respond(request.method(), request.uri().path(), &*page);
                    async move { Ok::<_, Infallible>(response) }
                });
                // The end of a connection, whatever its reason, is the asker's business.
                let _ = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(PATIENCE)
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
                drop(place);
            });
        }
    })
}

/// The response to a request.
fn respond(
    method: &Method,
    path: &str,
    page: &dyn Fn(&str) -> Option<Page>,
) -> Response<Full<Bytes>> {
    let (status, text) = if *method != Method::GET && *method != Method::HEAD {
        (StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned())
    } else {
        match page(path) {
            Some(Page { ok: true, text }) => (StatusCode::OK, text),
            Some(Page { ok: false, text }) => (StatusCode::SERVICE_UNAVAILABLE, text),
            None => (StatusCode::NOT_FOUND, "there is nothing here; look at /metrics\n".to_owned()),
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Metrics in Prometheus' text format, version 0.0.4.
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    text: String,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises; its name ends in `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
}

impl Exposition {
    /// A metric and what it means; its samples follow.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A sample of the metric `name`.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{}{label}=\"{text}\"", if i == 0 { '{' } else { ',' });
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }

    /// A metric with one sample.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Lets `listener` live on in a program that this process executes, and gives its number there.
///
/// # Errors
/// What the kernel says.
pub fn bequeath(listener: TcpListener) -> io::Result<RawFd> {
    fcntl(&listener, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(listener.into_raw_fd())
}

/// Takes over the listener that the process before this `exec` left as descriptor `fd`. To be called once for
/// a number, by whoever was told it.
///
/// # Errors
/// When `fd` is no listening socket.
#[allow(unsafe_code)]
pub fn inherit(fd: RawFd) -> io::Result<TcpListener> {
    let none = || io::Error::new(io::ErrorKind::InvalidInput, format!("{fd} is no listener"));
    if fd <= 2 {
        return Err(none());
    }
    // SAFETY: the number is that of a descriptor that was left open over exec for this very purpose, so that
    // nobody else in this process knows it; if it is not open, or something else, nothing is done with it.
    let listener = unsafe { TcpListener::from_raw_fd(fd) };
    if !SockRef::from(&listener).is_listener().unwrap_or(false) {
        // Whoever else it may be of keeps it.
        let _ = listener.into_raw_fd();
        return Err(none());
    }
    fcntl(&listener, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    debug_assert_eq!(listener.as_raw_fd(), fd);
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write as _};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn the_text_format() {
        let mut metrics = Exposition::default();
        metrics.single("a_total", Kind::Counter, "How many.", 3.0);
        metrics.family("b", Kind::Gauge, "How much.");
        metrics.sample("b", &[("x", "y"), ("z", "a\"b\\c\nd")], 0.5);
        assert_eq!(
            metrics.finish(),
            "# HELP a_total How many.\n# TYPE a_total counter\na_total 3\n# HELP b How much.\n\
             # TYPE b gauge\nb{x=\"y\",z=\"a\\\"b\\\\c\\nd\"} 0.5\n"
        );
    }

    #[test]
    fn pages_are_answered_until_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("an address");
        // As if over exec.
        let listener = inherit(bequeath(listener).expect("bequeathed")).expect("inherited");
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let server = std::thread::spawn(move || {
            let page = |path: &str| match path {
                "/metrics" => Some(Page { ok: true, text: "up 1\n".into() }),
                "/health" => Some(Page { ok: false, text: "ill\n".into() }),
                _ => None,
            };
            serve(listener, page, async {
                let _ = ended.await;
            })
        });
        for (request, status, text) in [
            ("GET /metrics", "200", "up 1\n"),
            ("GET /health", "503", "ill\n"),
            ("GET /", "404", "look at /metrics\n"),
            ("POST /metrics", "405", "GET only\n"),
        ] {
            let mut stream = TcpStream::connect(address).expect("connects");
            let text_of = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            stream.write_all(text_of.as_bytes()).expect("sends");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("answers");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
            assert!(answer.ends_with(text), "{request}: {answer}");
        }
        end.send(()).expect("it waits for it");
        server.join().expect("no panic").expect("ends well");
    }

    #[test]
    fn what_is_no_listener_is_not_inherited() {
        let file = std::fs::File::open("/dev/null").expect("opens");
        assert!(inherit(file.as_raw_fd()).is_err());
        assert!(file.metadata().is_ok(), "it is still open");
        assert!(inherit(0).is_err() && inherit(-1).is_err() && inherit(1_000_000).is_err());
    }
}
