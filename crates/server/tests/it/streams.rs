//! Answers that stay open end when their callers are let in no more, and go on for all others.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::process::{PATIENCE, ServerProcess, write_private};

const OLD_KEY: &str = "correct-horse-battery-staple";
const NEW_KEY: &str = "another-pony-without-a-cable";

/// A stream of what happens, which has said something.
struct OpenStream(TcpStream);

impl OpenStream {
    fn new(address: SocketAddr, credential: &str) -> Self {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let credential = credential.trim();
        write!(
            stream,
            "GET /api/v1/live HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {credential}\r\n\r\n"
        )
        .expect("sent");
        let mut open = Self(stream);
        open.reads("data:");
        open
    }

    /// Reads on until it says this.
    fn reads(&mut self, wanted: &str) {
        let (mut said, mut piece) = (String::new(), [0; 4_096]);
        while !said.contains(wanted) {
            let length = self.0.read(&mut piece).expect("it is open");
            assert!(length > 0, "it ended after {said}");
            said.push_str(&String::from_utf8_lossy(&piece[..length]));
        }
    }

    /// Reads to its end, which must not look like that of a whole answer.
    fn breaks_off(mut self) {
        let mut rest = Vec::new();
        // The end may come as an error of the connection.
        if let Err(error) = self.0.read_to_end(&mut rest) {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "it went on");
        }
        assert!(!rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
    }
}

#[test]
fn an_open_stream_breaks_off_when_its_token_is_deleted_or_its_key_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let key_file = folder.path().join("key");
    let write_keys = |keys: &[&str]| {
        let draft = folder.path().join("key.draft");
        write_private(&draft, &(keys.join("\n") + "\n"));
        fs::rename(&draft, &key_file).expect("replaced");
    };
    write_keys(&[OLD_KEY, NEW_KEY]);
    let shown = key_file.display().to_string();
    let node = ServerProcess::serve(folder.path(), "a", &["--cluster-key-file", &shown]);
    let ok = |args: &[&str]| node.ok(&[args, &["--cluster-key-file", &shown]].concat());
    let token = |name: &str| ok(&["token", "create", name, "--role", "viewer"]);
    let (deleted, kept) = (token("deleted"), token("kept"));
    let open = |credential: &str| OpenStream::new(node.address, credential);
    let [of_deleted, mut of_kept] = [&deleted, &kept].map(|token| open(token));
    let [mut of_old_key, of_new_key] = [OLD_KEY, NEW_KEY].map(open);
    ok(&["token", "delete", "deleted"]);
    of_deleted.breaks_off();
    write_keys(&[OLD_KEY]);
    node.signal("HUP");
    of_new_key.breaks_off();

    let job = folder.path().join("job.toml");
    fs::write(&job, "[[job]]\nname = \"seen\"\ncommand = [\"true\"]\n").expect("written");
    ok(&["job", "apply", "-f", &job.display().to_string()]);
    [&mut of_kept, &mut of_old_key].into_iter().for_each(|open| open.reads("seen"));
}
