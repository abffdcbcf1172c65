use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Stands between the services and their database, so that a test can take it away: connections
/// break, and new ones are closed at once. It ends with the runtime that started it.
#[derive(Debug)]
pub struct Proxy {
    open: watch::Sender<bool>,
    port: u16,
}

impl Proxy {
    /// Starts one in front of an address.
    ///
    /// # Panics
    ///
    /// If no port can be had.
    pub(crate) async fn start(target: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let (open, state) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, target.clone(), state.clone()));
            }
        });
        Self { open, port }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Takes the database away.
    pub fn cut(&self) {
        self.open.send_replace(false);
    }

    /// Gives it back.
    pub fn restore(&self) {
        self.open.send_replace(true);
    }
}

async fn pass(mut client: TcpStream, target: String, mut open: watch::Receiver<bool>) {
    if !*open.borrow_and_update() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    // How the connection ended is for the two at its ends to know.
    tokio::select! {
        _ended = copy_bidirectional(&mut client, &mut server) => {}
        _cut = open.wait_for(|open| !open) => {}
    }
}
