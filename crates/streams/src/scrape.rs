//! Pages for monitoring, over HTTP on an address of their own.
//!
//! [`serve`] answers `GET` requests of all connections at the same time with the current pages;
//! their number and their time are limited, and the oldest gives way to a new one, so that silent
//! clients keep nobody from the pages. [`bequeath`] and [`inherit`] pass a listener over `exec`,
//! for a program that opens it before it leaves the network namespace in which it must be
//! reachable.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
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
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

/// Highest number of connections at a time.
const CONNECTIONS: usize = 64;
/// Longest time for a request to arrive, and for a connection with its one response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// A page that a scraper or a health check gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Whether the state is good: status 200, or 503.
    pub ok: bool,
    /// Content of the page.
    pub text: String,
}

/// Serves pages to clients that `permits` permits until `end`; `page` returns the page of a path, `None` if there is none.
///
/// # Errors
/// When the runtime cannot be made or the listener cannot be used.
pub fn serve(
    listener: TcpListener,
    page: impl Fn(&str) -> Option<Page> + Send + Sync + 'static,
    permits: impl Fn(IpAddr) -> bool,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let page = Arc::new(page);
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let serve = |(stream, peer): (TcpStream, SocketAddr)| {
            let page = page.clone();
            permits(peer.ip()).then_some(async move {
                let service = service_fn(|request| {
                    let response = respond(request.method(), request.uri().path(), &*page);
                    async move { Ok::<_, Infallible>(response) }
                });
                let served = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(REQUEST_TIMEOUT)
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), service);
                // The end of a connection, for any reason, affects no other connection.
                let _ = tokio::time::timeout(CONNECTION_TIMEOUT, served).await;
            })
        };
        accept_each(async || listener.accept().await, CONNECTIONS, end, serve).await;
        Ok(())
    })
}

/// Accepts connections until `end`, and runs the task that `serve` makes for one, if any; at most
/// `limit` are open, the oldest is closed for a new one.
pub async fn accept_each<S, T: Future<Output = ()> + Send + 'static>(
    accept: impl AsyncFn() -> io::Result<S>,
    limit: usize,
    end: impl Future<Output = ()>,
    serve: impl Fn(S) -> Option<T>,
) {
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    let mut end = std::pin::pin!(end);
    loop {
        let accepted = tokio::select! {
            accepted = accept() => accepted,
            () = &mut end => return,
        };
        let Ok(accepted) = accepted else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Some(task) = serve(accepted) else { continue };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= limit {
            open.pop_front().iter().for_each(AbortHandle::abort);
        }
        open.push_back(tokio::spawn(task).abort_handle());
    }
}

/// Returns the response to a request.
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
            None => (StatusCode::NOT_FOUND, "no such page; see /metrics\n".to_owned()),
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Keeps `listener` open in a program that this process executes; returns its descriptor there.
///
/// # Errors
/// Errors of the kernel.
pub fn bequeath(listener: TcpListener) -> io::Result<RawFd> {
    fcntl(&listener, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(listener.into_raw_fd())
}

/// Takes over the listener that the program before this `exec` left open as descriptor `fd`. Must
/// be called at most once for each descriptor.
///
/// # Errors
/// When `fd` is not a listening socket.
#[allow(unsafe_code)]
pub fn inherit(fd: RawFd) -> io::Result<TcpListener> {
    let none = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("descriptor {fd} is not a listening socket"),
        )
    };
    if fd <= 2 {
        return Err(none());
    }
    // SAFETY: the number belongs to a descriptor that was left open over exec for this very
    // purpose, so that no other code in this process knows it; if it is not open, or another kind
    // of descriptor, it is not used.
    let listener = unsafe { TcpListener::from_raw_fd(fd) };
    if !SockRef::from(&listener).is_listener().unwrap_or(false) {
        // If it belongs to other code, that code keeps it.
        let _ = listener.into_raw_fd();
        return Err(none());
    }
    fcntl(&listener, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    debug_assert_eq!(listener.as_raw_fd(), fd);
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    use super::*;

    /// Serves two pages while `use_them` runs with the address of the listener.
    fn while_served(use_them: impl FnOnce(SocketAddr)) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("an address");
        // As over exec.
        let listener = inherit(bequeath(listener).expect("bequeathed")).expect("inherited");
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let server = std::thread::spawn(move || {
            let page = |path: &str| match path {
                "/metrics" => Some(Page { ok: true, text: "up 1\n".into() }),
                "/health" => Some(Page { ok: false, text: "ill\n".into() }),
                _ => None,
            };
            let permits = |client: IpAddr| client != IpAddr::from([127, 0, 0, 9]);
            serve(listener, page, permits, async {
                let _ = ended.await;
            })
        });
        use_them(address);
        end.send(()).expect("it waits for it");
        server.join().expect("no panic").expect("ends well");
    }

    /// Sends a request; returns the connection.
    fn send(address: SocketAddr, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).expect("connects");
        let text = format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(text.as_bytes()).expect("sends");
        stream
    }

    fn answer(mut stream: TcpStream) -> String {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answers, and closes");
        answer
    }

    #[test]
    fn pages_are_served_until_the_end() {
        while_served(|address| {
            for (request, status, text) in [
                ("GET /metrics", "200", "up 1\n"),
                ("GET /health", "503", "ill\n"),
                ("GET /", "404", "see /metrics\n"),
                ("POST /metrics", "405", "GET only\n"),
            ] {
                let answer = answer(send(address, request));
                assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
                assert!(answer.ends_with(text), "{request}: {answer}");
            }
        });
    }

    #[test]
    fn silent_connections_keep_nobody_from_the_pages() {
        while_served(|address| {
            let connect = |_| TcpStream::connect(address).expect("connects");
            let silent: Vec<TcpStream> = (0..4 * CONNECTIONS).map(connect).collect();
            assert!(answer(send(address, "GET /metrics")).starts_with("HTTP/1.1 200"));
            for mut stream in silent {
                assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)), "it is closed");
            }
        });
    }

    #[test]
    fn clients_that_are_not_permitted_are_closed() {
        while_served(|address| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let socket = socket.expect("a socket");
            socket.bind(&SocketAddr::from(([127, 0, 0, 9], 0)).into()).expect("loopback");
            socket.connect(&address.into()).expect("connects");
            let mut stream = TcpStream::from(socket);
            assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)));
        });
    }

    #[test]
    fn only_a_listener_is_inherited() {
        let file = std::fs::File::open("/dev/null").expect("opens");
        assert!(inherit(file.as_raw_fd()).is_err());
        assert!(file.metadata().is_ok(), "it is still open");
        assert!(inherit(0).is_err() && inherit(-1).is_err() && inherit(1_000_000).is_err());
    }
}
