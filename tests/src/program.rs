use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports below what systems hand out by themselves, so that a process that is down keeps its own.
const PORTS: std::ops::Range<u16> = 10_000..20_000;

/// The program or folder that a variable names.
///
/// # Panics
///
/// Without the variable; the message says how to run the tests.
pub fn program(variable: &str) -> PathBuf {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask test`"))
        .into()
}

/// A port that nobody listens on. One process never gets the same one twice in a row.
///
/// # Panics
///
/// If none is free.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    let begin = u16::try_from(std::process::id() % u32::from(count)).expect("less than a u16");
    (0..count)
        .map(|_| {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            PORTS.start + begin.wrapping_mul(37).wrapping_add(step) % count
        })
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("a port is free")
}
