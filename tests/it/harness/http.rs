//! As much of HTTP/1.1 as it takes to ask a question and read the answer.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::process::PATIENCE;

/// An answer.
#[derive(Debug)]
pub struct Response {
    /// 200, 429.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// As text: nothing here answers with anything else.
    pub body: String,
}

impl Response {
    /// The value of a header that must be there once.
    pub fn header(&self, name: &str) -> &str {
        self.find(name)
            .unwrap_or_else(|| panic!("there is no header {name} in {self:#?}"))
    }

    /// The value of a header that may be missing.
    pub fn find(&self, name: &str) -> Option<&str> {
        let mut values = self
            .headers
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(
            values.next().is_none(),
            "there is more than one header {name} in {self:#?}"
        );
        value
    }
}

/// Asks for `path` with `GET`. Header values are bytes: callers write what they like.
pub fn get<V: AsRef<[u8]>>(address: &str, path: &str, headers: &[(&str, V)]) -> Response {
    try_get(address, path, headers).unwrap_or_else(|error| panic!("GET {path} from {address}: {error}"))
}

/// The same for a server that may not be there.
pub fn try_get<V: AsRef<[u8]>>(
    address: &str,
    path: &str,
    headers: &[(&str, V)],
) -> std::io::Result<Response> {
    let mut request = start("GET", address, path);
    for (name, value) in headers {
        request.extend_from_slice(format!("{name}: ").as_bytes());
        request.extend_from_slice(value.as_ref());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    exchange(address, &request)
}

/// Sends `body` to `path` with `method`.
pub fn send(method: &str, address: &str, path: &str, body: impl AsRef<[u8]>) -> Response {
    let body = body.as_ref();
    let mut request = start(method, address, path);
    request.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    request.extend_from_slice(body);
    exchange(address, &request).unwrap_or_else(|error| panic!("{method} {path} to {address}: {error}"))
}

fn start(method: &str, address: &str, path: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n").into_bytes()
}

fn exchange(address: &str, request: &[u8]) -> std::io::Result<Response> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    parse(&answer).ok_or_else(|| std::io::Error::other(format!("not an answer: {answer:?}")))
}

fn parse(answer: &str) -> Option<Response> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines
        .map(|line| {
            line.split_once(':')
                .map(|(key, value)| (key.to_owned(), value.trim().to_owned()))
        })
        .collect::<Option<Vec<_>>>()?;
    let chunked = headers
        .iter()
        .any(|(key, value)| key.eq_ignore_ascii_case("transfer-encoding") && value == "chunked");
    let body = if chunked { unchunk(body)? } else { body.to_owned() };
    Some(Response {
        status,
        headers,
        body,
    })
}

fn unchunk(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(after.get(..size)?);
        rest = after.get(size + 2..)?;
    }
}
